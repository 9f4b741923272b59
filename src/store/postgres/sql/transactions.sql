-- Time, and transaction ids.

-- Store time: that of the database, the same for all of one transaction. Everything takes its time
-- from here; a store that is opened with a clock of its own has another version of it.
create function now_ms() returns bigint language sql stable as $$
  select (extract(epoch from transaction_timestamp()) * 1000)::bigint
$$;

create function transaction_client() returns bigint language sql stable as $$
  select nullif(current_setting('strand.client', true), '')::bigint
$$;
create function transaction_number() returns bigint language sql stable as $$
  select nullif(current_setting('strand.number', true), '')::bigint
$$;

-- The beginning of a transaction with an id. If it was applied before, its receipt comes back as an
-- error, so that nothing behind this is done.
create function begin_transaction(p_client bigint, p_number bigint, p_time bigint, p_lowest bigint,
                                  p_fingerprint bytea, p_window bigint, p_ids_max bigint)
returns void language plpgsql as $$
declare
  v_now bigint := now_ms();
  r receipts;
  c clients;
begin
  -- Who repeats it at the same time waits here for the first to end.
  perform pg_advisory_xact_lock(hashtextextended(
    'strand transaction ' || current_schema() || ' ' || p_client || ' ' || p_number, 0));
  select * into r from receipts
   where client = p_client and number = p_number and forget_at > v_now;
  if found then
    if r.fingerprint <> p_fingerprint then
      perform refuse('STCON', format('transaction %s of client %s was applied with other content: '
                                     'a new transaction needs a new number', p_number, p_client));
    end if;
    raise exception using errcode = 'STRCP', message = 'the transaction was applied before';
  end if;
  select * into c from clients where client = p_client and forget_at > v_now for update;
  if found and p_number < c.lowest then
    perform refuse('STEXP', format('transaction %s of client %s is below %s, up to which the '
                                   'client said it has all answers',
                                   p_number, p_client, c.lowest));
  end if;
  if p_time <= v_now - p_window then
    perform refuse('STEXP', format('transaction %s of client %s was made too long ago (%s ms is the '
                                   'window); whether it was applied is not known any more',
                                   p_number, p_client, p_window));
  end if;
  if p_time > v_now + p_window then
    perform refuse('STARG', format('transaction %s of client %s has a time far ahead of the '
                                   'store''s: take it from Store::now() or a receipt',
                                   p_number, p_client));
  end if;
  if p_lowest > p_number then
    perform refuse('STARG', format('transaction %s of client %s says that all below %s are '
                                   'answered, itself included', p_number, p_client, p_lowest));
  end if;
  if has_more_than('receipts', 'forget_at', p_ids_max - 1) then
    perform refuse('STSFU', format('the store remembers %s transactions, its limit '
                                   '(transaction_ids_max): raise the lowest unanswered number',
                                   p_ids_max));
  end if;
  if c.client is null then
    insert into clients values (p_client, p_lowest, p_time + p_window + 60000)
    on conflict (client) do update
      set lowest = case when clients.forget_at <= v_now then excluded.lowest
                        else greatest(clients.lowest, excluded.lowest) end,
          forget_at = greatest(clients.forget_at, excluded.forget_at);
  elsif c.lowest < p_lowest or c.forget_at < p_time + p_window then
    update clients set lowest = greatest(lowest, p_lowest),
                       forget_at = greatest(forget_at, p_time + p_window + 60000)
     where client = p_client;
  end if;
  if p_lowest > coalesce(c.lowest, 0) then
    delete from receipts where client = p_client and number < p_lowest;
  end if;
  insert into receipts (client, number, fingerprint, forget_at, time)
  values (p_client, p_number, p_fingerprint, p_time + p_window, v_now)
  on conflict (client, number) do update set
    fingerprint = excluded.fingerprint, forget_at = excluded.forget_at, time = excluded.time,
    sent = '{}', duplicate = '{}', published = '{}', republished = '{}', matched = '{}',
    cancelled = '{}', versions = '{}', affected = 0;
  perform set_config('strand.client', p_client::text, true),
          set_config('strand.number', p_number::text, true);
end $$;

-- The end of one of the client's transactions: what was noted for its own parts is forgotten.
-- Returns its time.
create function end_transaction() returns bigint language plpgsql as $$
begin
  perform set_config('strand.client', '', true), set_config('strand.number', '', true),
          set_config('strand.part', (coalesce(nullif(current_setting('strand.part', true), ''),
                                              '0')::int + 1)::text, true);
  return now_ms();
end $$;
