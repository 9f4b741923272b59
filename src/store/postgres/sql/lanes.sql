-- What every other function stands on: errors, names of queues, lanes, and how messages move.
--
-- A function that changes a lane locks its row, changes the copy it has (of type `lanes`), and ends
-- with save_lane(). p_now is store time: that of the transaction, or the instant at which
-- something was due.

create function refuse(p_code text, p_message text) returns void language plpgsql as $$
begin
  raise exception using errcode = p_code, message = p_message;
end $$;

-- How bytes are shown in errors.
create function shown(p_bytes bytea) returns text language plpgsql immutable as $$
begin
  return convert_from(p_bytes, 'UTF8');
exception when others then
  return encode(p_bytes, 'escape');
end $$;

create function known_queue(p_name text) returns queues language plpgsql stable as $$
declare
  q queues;
begin
  select * into q from queues where name = p_name;
  if q.id is null then perform refuse('STNFD', format('there is no queue ''%s''', p_name)); end if;
  return q;
end $$;

-- Sends, leases and settles of a queue go on side by side; removing it waits for them all.
create function share_queue(p_queue int) returns void language sql as $$
  select pg_advisory_xact_lock_shared(hashtext('strand queue ' || current_schema()), p_queue)
$$;
create function own_queue(p_queue int) returns void language sql as $$
  select pg_advisory_xact_lock(hashtext('strand queue ' || current_schema()), p_queue)
$$;

-- The queue of that name, made if there is none. Ids are small and used again, because they are
-- part of tokens.
create function ensure_queue(p_name text, p_queues_max bigint) returns int
language plpgsql as $$
declare
  v_id int;
begin
  loop
    select id into v_id from queues where name = p_name;
    if v_id is not null then
      perform share_queue(v_id);
      if exists (select 1 from queues where id = v_id and name = p_name) then return v_id; end if;
      continue;  -- removed while this waited
    end if;
    perform pg_advisory_xact_lock(hashtext('strand queues ' || current_schema()), 0);
    perform 1 from queues where name = p_name;
    if found then continue; end if;
    if (select count(*) from queues) >= p_queues_max then
      perform refuse('STLIM', format('the store has %s queues, its limit (queues_max); remove some, '
                                     'or use keys instead of queues', p_queues_max));
    end if;
    select coalesce(min(i.id), 1) into v_id
      from (select 1 as id union all select id + 1 from queues) i
     where not exists (select 1 from queues q where q.id = i.id);
    insert into queues (id, name) values (v_id, p_name) on conflict do nothing;
    if not found then continue; end if;
    perform share_queue(v_id);
    return v_id;
  end loop;
end $$;

-- Counts what happened to messages of a queue.
create function tally(p_queue int, p_what text, p_count bigint, p_bytes bigint) returns void
language plpgsql as $$
begin
  if p_count = 0 then return; end if;
  insert into tallies (queue, accepted, acked, expired, dropped, moved, purged, dead, bytes)
  values (p_queue,
          case p_what when 'accepted' then p_count else 0 end,
          case p_what when 'acked' then p_count else 0 end,
          case p_what when 'expired' then p_count else 0 end,
          case p_what when 'cancelled' then p_count when 'dropped' then p_count else 0 end,
          case p_what when 'moved' then p_count else 0 end,
          case p_what when 'purged' then p_count else 0 end,
          case p_what when 'dead' then p_count else 0 end, p_bytes);
end $$;

create function live_count(p_queue int) returns bigint language plpgsql stable as $$
begin
  return (select coalesce(sum(accepted - acked - expired - dropped - moved - purged - dead), 0)::bigint
            from tallies where queue = p_queue);
end $$;

-- --- Who is told ---

-- The channel is named like the schema. Equal notifications of one transaction are sent once.
create function tell_queue(p_queue int) returns void language plpgsql as $$
begin
  perform pg_notify(current_schema(), 'q' || name) from queues where id = p_queue;
end $$;
create function tell_lease(p_epoch bigint) returns void language sql as $$
  select pg_notify(current_schema(), 'l' || p_epoch)
$$;
create function tell_record(p_space bytea, p_key bytea) returns void language sql as $$
  select pg_notify(current_schema(), 'r' || encode(p_space, 'hex') || ':' || encode(p_key, 'hex'))
$$;
-- Something will be due sooner than the slow poll of other processes would see.
create function tell_due(p_at bigint) returns void language sql as $$
  select pg_notify(current_schema(), 'd' || p_at)
$$;

-- --- Lanes ---

-- Locks lanes, always in the same order, so that two transactions do not wait for each other in a
-- circle. Returns those that are still there.
create function lock_ids(p_ids bigint[]) returns bigint[] language plpgsql as $$
begin
  return array(select l.id from lanes l where l.id = any (p_ids) order by l.queue, l.key
                  for update);
end $$;

-- Locks the lanes of these keys; those that there are not yet are made. Returns how many they are.
create function lock_lanes(p_queues int[], p_keys bytea[]) returns int language plpgsql as $$
declare
  v_queues int[];
  v_keys bytea[];
  v_locked int;
begin
  if cardinality(p_keys) = 1 then
    v_queues := p_queues;
    v_keys := p_keys;
  else
    select array_agg(w.queue), array_agg(w.key) into v_queues, v_keys
      from (select distinct u.queue, u.key from unnest(p_queues, p_keys) as u (queue, key)
             where u.key is not null order by 1, 2) w;
  end if;
  loop
    insert into lanes (id, queue, key, label)
    select nextval('numbers'), w.queue, w.key,
           coalesce((select i.label from instances i
                      where i.queue = w.queue and i.key = w.key and i.outcome is null), '')
      from unnest(v_queues, v_keys) as w (queue, key)
     where not exists (select 1 from lanes l where l.queue = w.queue and l.key = w.key)
    on conflict (queue, key) do nothing;

    perform 1 from (select l.id from unnest(v_queues, v_keys) with ordinality as u (queue, key, n)
                      join lanes l on l.queue = u.queue and l.key = u.key
                     order by u.n for update of l) locked;
    get diagnostics v_locked = row_count;
    -- A lane that ended while this waited is made again; or somebody else has made it again, and it
    -- is another row, which is not locked yet.
    if v_locked = cardinality(v_keys) then return v_locked; end if;
  end loop;
end $$;

-- Locks the lanes of tokens and of keys, as far as they exist: the others have nobody to wait for.
create function lock_known_lanes(p_places bigint[], p_queues text[], p_keys bytea[]) returns void
language plpgsql as $$
begin
  perform share_queue(q.id)
     from (select id from queues where name = any (p_queues)
           union select queue_of(u) from unnest(p_places) u order by 1) q;
  perform lock_ids(array(
    select number_of(u) from unnest(p_places) u
    union
    select l.id from unnest(p_queues, p_keys) as u (queue, key)
      join queues q on q.name = u.queue join lanes l on l.queue = q.id and l.key = u.key));
end $$;

-- The priority of the most urgent message that can be leased; null if there is none.
create function best_priority(l lanes) returns int language plpgsql stable as $$
begin
  if l.barrier_due is null then
    return case when l.woken_0 > 0 then 0 when l.woken_1 > 0 then 1
                when l.woken_2 > 0 then 2 when l.woken_3 > 0 then 3 end;
  end if;
  return (select min(m.priority) from messages m
           where m.lane = l.id and (m.due, m.id) < (l.barrier_due, l.barrier_id)
             and m.wakes_at is null and m.epoch is null);
end $$;

-- Writes the copy as it is, without drawing conclusions.
create function store_lane(l lanes) returns void language plpgsql as $$
begin
  update lanes set
    label = l.label, live = l.live, carried = l.carried, waiting = l.waiting, backoff = l.backoff,
    woken_0 = l.woken_0, woken_1 = l.woken_1, woken_2 = l.woken_2, woken_3 = l.woken_3,
    barrier_due = l.barrier_due, barrier_id = l.barrier_id, turn = l.turn, priority = l.priority,
    ready_since = l.ready_since, epoch = l.epoch, lease_until = l.lease_until, cursor = l.cursor,
    isolated = l.isolated, graced = l.graced, request_client = l.request_client,
    request_number = l.request_number, park_reason = l.park_reason,
    isolate_next = l.isolate_next, hint_owner = l.hint_owner, hint_until = l.hint_until,
    hint_grace = l.hint_grace, last_time = l.last_time
  where id = l.id;
end $$;

-- Ends a change: gives the lane its turn or takes it away, and forgets it when nothing is left.
create function save_lane(l lanes, p_now bigint) returns void language plpgsql as $$
declare
  v_best int;
begin
  if l.live = 0 then
    l.isolate_next := false;
    if l.epoch is null and l.park_reason is null and l.hint_owner is null then
      delete from lanes where id = l.id;
      return;
    end if;
  end if;
  if l.epoch is null and l.park_reason is null then v_best := best_priority(l); end if;
  if v_best is null then
    l.turn := null;
    l.ready_since := null;
  else
    if l.turn is null then
      l.turn := nextval('numbers');
      l.ready_since := p_now;
    end if;
    l.priority := v_best;
    perform tell_queue(l.queue);
  end if;
  perform store_lane(l);
end $$;

create function count_woken(l lanes, p_priority int, p_step int) returns lanes
language plpgsql immutable as $$
begin
  case p_priority
    when 0 then l.woken_0 := l.woken_0 + p_step;
    when 1 then l.woken_1 := l.woken_1 + p_step;
    when 2 then l.woken_2 := l.woken_2 + p_step;
    else l.woken_3 := l.woken_3 + p_step;
  end case;
  return l;
end $$;

create function find_barrier(l lanes) returns lanes language plpgsql stable as $$
begin
  select due, id into l.barrier_due, l.barrier_id
    from messages where lane = l.id and blocks order by due, id limit 1;
  return l;
end $$;

-- Takes a message out of the counts of its lane, as it stands now.
create function unlink_message(l lanes, m messages) returns lanes language plpgsql as $$
begin
  l.live := l.live - 1;
  if m.epoch is not null then
    l.carried := l.carried - 1;
  elsif m.wakes_at is not null then
    l.waiting := l.waiting - 1;
    if m.not_before is not null then l.backoff := l.backoff - 1; end if;
    -- What stood behind it is visible now, and nothing else tells the holder.
    if m.blocks and l.epoch is not null then perform tell_lease(l.epoch); end if;
  else
    l := count_woken(l, m.priority, -1);
  end if;
  return l;
end $$;

-- --- How messages leave ---

create function header(p_name text, p_value bytea) returns bytea language sql immutable as $$
  select int4send(octet_length(convert_to(p_name, 'UTF8'))) || convert_to(p_name, 'UTF8') ||
         int4send(octet_length(p_value)) || p_value
$$;

-- A body that nobody shares any more goes. Of two who leave at the same time neither may see that
-- the other does: upkeep finds what they left.
create function release_body(p_body bigint) returns void language plpgsql as $$
begin
  delete from bodies b where b.id = p_body
     and not exists (select 1 from messages m where m.body_at = p_body)
     and not exists (select 1 from dead d where d.body_at = p_body)
     and not exists (select 1 from retained r where r.id = p_body);
end $$;

-- Tells whoever wants to know that the message has ended. The message says so itself, or its queue
-- for dead letters; of notices no setting tells, or queues that name each other were never done.
create function send_notice(m messages, p_how text, p_reason bytea, p_now bigint) returns void
language plpgsql as $$
declare
  q queues;
  v_queue text;
  v_key bytea;
  v_headers bytea;
  v_target int;
begin
  select * into q from queues where id = m.queue;
  if m.notice_queue is not null then
    v_queue := m.notice_queue;
    v_key := m.notice_key;
    v_headers := coalesce(m.headers, '');
  elsif p_how = 'dead' and q.notice_queue is not null and not m.notice then
    v_queue := q.notice_queue;
    v_key := q.notice_key;
    v_headers := '';
  else
    return;
  end if;
  if current_setting('strand.removing', true) = v_queue then return; end if;
  v_headers := v_headers || header('strand-notice-id', convert_to(m.id::text, 'UTF8'))
                         || header('strand-notice-queue', convert_to(q.name, 'UTF8'));
  if m.name is not null then v_headers := v_headers || header('strand-notice-name', m.name); end if;
  v_headers := v_headers || header('strand-notice-end', convert_to(p_how, 'UTF8'));
  if p_reason <> '' then
    v_headers := v_headers || header('strand-notice-reason', p_reason);
  end if;
  v_target := ensure_queue(v_queue, 9223372036854775807);
  if (select max_length from queues where id = v_target) > 0 then
    perform add_unforeseen(v_target, -1);
  end if;
  perform accept(p_now, array[v_target], array[v_key], array[''::bytea], array[null::bigint],
                 array[v_headers], array[headers_bytes(v_headers)], array[2], array[0::bigint],
                 array[null::bigint], array[''], array[null::bytea], array[null::bigint],
                 array[null::text], array[null::bytea], array[null::text], true);
end $$;

-- The bytes of names and values, without the lengths in front of them.
create function headers_bytes(p_headers bytea) returns int language plpgsql immutable as $$
declare
  v_at int := 0;
  v_sum int := 0;
  v_length int;
begin
  while v_at < octet_length(p_headers) loop
    v_length := (get_byte(p_headers, v_at) << 24) | (get_byte(p_headers, v_at + 1) << 16)
              | (get_byte(p_headers, v_at + 2) << 8) | get_byte(p_headers, v_at + 3);
    v_sum := v_sum + v_length;
    v_at := v_at + 4 + v_length;
  end loop;
  return v_sum;
end $$;

-- Ends a message: p_how is acked, expired, cancelled, purged or dead. Returns its lane as it is
-- then; the lane of an unkeyed message is null.
create function end_message(l lanes, m messages, p_how text, p_reason bytea, p_now bigint)
returns lanes language plpgsql as $$
begin
  if m.lane is not null then l := unlink_message(l, m); end if;
  if p_how = 'dead' then
    insert into dead (queue, id, key, due, priority, bytes, enqueued_at, expires_at, attempts,
                      deliveries, notice, max_attempts, label, name, notice_queue, notice_key,
                      topic, failure_times, failure_reasons, headers, body_at, body, dead_at,
                      reason)
    values (m.queue, m.id, l.key, m.due, m.priority, m.bytes, m.enqueued_at, m.expires_at,
            m.attempts, m.deliveries, m.notice, m.max_attempts, m.label, m.name, m.notice_queue,
            m.notice_key, m.topic, m.failure_times, m.failure_reasons, m.headers, m.body_at,
            m.body, p_now, coalesce(p_reason, ''));
  end if;
  if m.turn is not null then
    delete from ready where queue = m.queue and priority = m.priority and turn = m.turn;
  end if;
  delete from messages where queue = m.queue and id = m.id;
  if m.blocks then l := find_barrier(l); end if;
  perform tally(m.queue, p_how, 1, -m.bytes - 144);
  if p_how <> 'dead' and m.body_at is not null then perform release_body(m.body_at); end if;
  if p_how <> 'acked' and (m.notice_queue is not null or p_how = 'dead') then
    -- The notice may go into this very lane.
    if m.lane is not null then perform store_lane(l); end if;
    perform send_notice(m, p_how, p_reason, p_now);
    if m.lane is not null then select * into l from lanes where id = l.id; end if;
  end if;
  return l;
end $$;

create function end_expired(l lanes, m messages, p_now bigint) returns lanes
language plpgsql as $$
begin
  if (select on_expired from queues where id = m.queue) = 'dead' then
    return end_message(l, m, 'dead', 'expired', p_now);
  end if;
  return end_message(l, m, 'expired', null, p_now);
end $$;

-- --- How messages come back ---

-- An unkeyed message can be leased from now on. Returns its turn.
create function line_up(m messages, p_now bigint) returns bigint language plpgsql as $$
declare
  v_turn bigint := nextval('numbers');
begin
  insert into ready (queue, priority, turn, id, since, ttl_at, bytes, label)
  values (m.queue, m.priority, v_turn, m.id, p_now, m.expires_at, m.bytes, m.label);
  perform tell_queue(m.queue);
  return v_turn;
end $$;

-- Puts a message that a lease carried back into its place, as its members say; m.epoch is still
-- that of the lease.
create function give_back(l lanes, m messages, p_now bigint) returns lanes language plpgsql as $$
declare
  v_wakes bigint;
begin
  if m.expires_at <= p_now then return end_expired(l, m, p_now); end if;
  if m.not_before <= p_now then
    m.not_before := null;
    m.blocks := false;
  end if;
  v_wakes := greatest(m.due, m.not_before);
  if v_wakes <= p_now then v_wakes := null; end if;
  m.turn := null;
  if m.lane is not null then
    if m.epoch is not null then l.carried := l.carried - 1; end if;
    if v_wakes is null then
      l := count_woken(l, m.priority, 1);
      if l.epoch is not null then perform tell_lease(l.epoch); end if;
    else
      l.waiting := l.waiting + 1;
      if m.not_before is not null then l.backoff := l.backoff + 1; end if;
    end if;
  elsif v_wakes is null and m.park_reason is null then
    m.turn := line_up(m, p_now);
  end if;
  update messages set
    ttl_at = expires_at, wakes_at = v_wakes, not_before = m.not_before, blocks = m.blocks,
    attempts = m.attempts, epoch = null, pulled = null, lease_until = null, graced = false,
    request_client = null, request_number = null, turn = m.turn,
    park_reason = m.park_reason, failure_times = m.failure_times,
    failure_reasons = m.failure_reasons
  where queue = m.queue and id = m.id;
  if m.blocks then l := find_barrier(l); end if;
  return l;
end $$;

create function add_failure(m messages, p_reason bytea, p_now bigint, p_kept int) returns messages
language plpgsql as $$
begin
  m.attempts := m.attempts + 1;
  m.failure_times := m.failure_times || p_now;
  m.failure_reasons := m.failure_reasons || p_reason;
  if cardinality(m.failure_times) > p_kept then
    m.failure_times := m.failure_times[cardinality(m.failure_times) - p_kept + 1:];
    m.failure_reasons := m.failure_reasons[cardinality(m.failure_reasons) - p_kept + 1:];
  end if;
  return m;
end $$;

-- The low 64 bits of a product, of numbers taken as unsigned.
create function times(a numeric, b numeric) returns numeric language sql immutable as $$
  select (a * b) % 18446744073709551616
$$;
create function xor_shift(a numeric, p_bits int) returns numeric language plpgsql immutable as $$
declare
  -- bigint has the operators, and is signed: the upper half of the numbers is its negative half.
  v_low bigint := case when a >= 9223372036854775808 then (a - 18446744073709551616)::bigint
                       else a::bigint end;
  v_shifted bigint := trunc(a / (2::numeric ^ p_bits))::bigint;
  v_mixed bigint := v_low # v_shifted;
begin
  return case when v_mixed < 0 then v_mixed::numeric + 18446744073709551616
              else v_mixed::numeric end;
end $$;

-- How long a message waits after this failure; the formula is in settings.h.
create function backoff_of(q queues, p_id bigint, p_attempts int) returns bigint
language plpgsql immutable as $$
declare
  v_step bigint;
  x numeric;
begin
  if cardinality(q.backoff) = 0 then return 0; end if;
  v_step := q.backoff[least(p_attempts, cardinality(q.backoff))];
  if q.jitter_percent = 0 then return v_step; end if;
  x := (times(p_id::numeric, 11400714819323198485) + p_attempts) % 18446744073709551616;
  x := times(xor_shift(x, 30), 13787848793156543929);
  x := times(xor_shift(x, 27), 10723151780598845931);
  x := xor_shift(x, 31);
  return v_step + trunc(v_step::numeric * q.jitter_percent * (x % 1001) / 100000)::bigint;
end $$;

-- Charges one attempt and decides at once what follows. `p_park` comes back with the reason for
-- which the lane has to be parked, if it has to.
create function fail_message(l lanes, m messages, q queues, p_reason bytea, p_delay bigint,
                             p_expiry boolean, p_now bigint, p_kept int,
                             out lane lanes, out park bytea)
language plpgsql as $$
declare
  v_allowed bigint := coalesce(m.max_attempts, q.max_attempts);
  v_wait bigint;
begin
  m := add_failure(m, p_reason, p_now, p_kept);
  if (m.expires_at is null or m.expires_at > p_now)
     and v_allowed <> 0 and m.attempts >= v_allowed then
    if q.on_exhausted = 'dead' then
      lane := end_message(l, m, 'dead', p_reason, p_now);
      return;
    end if;
    if m.lane is null then m.park_reason := p_reason; else park := p_reason; end if;
  elsif not p_expiry then
    v_wait := coalesce(p_delay, backoff_of(q, m.id, m.attempts));
    if v_wait > 0 then
      m.not_before := p_now + v_wait;
      m.blocks := m.lane is not null and q.retry_policy = 'block';
    end if;
  end if;
  lane := give_back(l, m, p_now);
end $$;
