-- Histories of instances, and records.

-- The lane of a token, which is the lock of its instance; refuses unkeyed messages.
create function held_instance(p_place bigint, p_epoch bigint, p_now bigint) returns lanes
language plpgsql as $$
begin
  if is_message(p_place) then
    perform held_message(p_place, p_epoch, p_now);
    perform refuse('STARG', 'an unkeyed message has no history: send it with the key of its '
                            'instance');
  end if;
  return held_lane(p_place, p_epoch, p_now);
end $$;

-- Removes histories of the lanes that the tokens hold, up to an execution (0: all of it).
create function remove_histories(p_places bigint[], p_epochs bigint[], p_through bigint[])
returns void language plpgsql as $$
declare
  v_now bigint := now_ms();
  l lanes;
  t instances;
begin
  for i in 1 .. cardinality(p_places) loop
    l := held_instance(p_places[i], p_epochs[i], v_now);
    select * into t from instances where queue = l.queue and key = l.key;
    if p_through[i] = 0 then
      delete from events where instance = t.number;
      delete from executions where instance = t.number;
      delete from instances where queue = l.queue and key = l.key;
    elsif t.number is null or p_through[i] >= t.execution then
      perform refuse('STHIS', format('executions up to %s cannot be removed: the last one is %s; 0 '
                                     'removes the whole history',
                                     p_through[i], coalesce(t.execution, 0)));
    else
      delete from events where instance = t.number and execution <= p_through[i];
      delete from executions where instance = t.number and execution <= p_through[i];
      update instances set first_execution = greatest(first_execution, p_through[i] + 1)
       where number = t.number;
    end if;
  end loop;
end $$;

-- Appends events. p_counts says how many of p_events belong to each append; p_closes closes the
-- execution with that outcome.
create function append_histories(p_places bigint[], p_epochs bigint[], p_executions bigint[],
                                 p_expected bigint[], p_counts int[], p_events bytea[],
                                 p_closes bytea[])
returns void language plpgsql as $$
declare
  v_now bigint := now_ms();
  v_from int := 1;
  l lanes;
  t instances;
  v_open boolean;
  v_opens boolean;
  v_length bigint;
begin
  for i in 1 .. cardinality(p_places) loop
    l := held_instance(p_places[i], p_epochs[i], v_now);
    select * into t from instances where queue = l.queue and key = l.key;
    v_open := t.number is not null and t.outcome is null;
    v_opens := p_executions[i] = coalesce(t.execution, 0) + 1 and not v_open;
    v_length := case when v_opens then 0 else coalesce(t.length, 0) end;
    if not (v_opens or (v_open and p_executions[i] = t.execution)) or p_expected[i] <> v_length then
      perform refuse('STHIS', format(
        'instance ''%s'': execution %s at length %s was expected, but the last execution is %s (%s) '
        'at length %s; lease it again and replay', shown(l.key), p_executions[i], p_expected[i],
        coalesce(t.execution, 0),
        case when t.number is null then 'there is none' when v_open then 'open' else 'closed' end,
        coalesce(t.length, 0)));
    end if;
    if v_opens and t.number is not null then
      insert into executions values (t.number, t.execution, t.length, t.first_event, t.label,
                                     t.outcome, t.opened_at, t.updated_at);
    end if;
    if t.number is null then t.number := nextval('numbers'); end if;
    insert into events
    select t.number, p_executions[i], v_length + e.n - 1, e.event
      from unnest(p_events[v_from:v_from + p_counts[i] - 1]) with ordinality as e (event, n);
    v_from := v_from + p_counts[i];
    insert into instances as o
    values (l.queue, l.key, t.number, 1, p_executions[i], v_length + p_counts[i], 0, l.label,
            p_closes[i], v_now, v_now)
    on conflict (queue, key) do update set
      execution = excluded.execution, length = excluded.length, updated_at = v_now,
      first_event = case when v_opens then 0 else o.first_event end,
      label = case when v_opens then excluded.label else o.label end,
      opened_at = case when v_opens then v_now else o.opened_at end,
      outcome = excluded.outcome;
  end loop;
end $$;

-- Forgets the events of the open execution that lie before one.
create function trim_histories(p_places bigint[], p_epochs bigint[], p_executions bigint[],
                               p_before bigint[])
returns void language plpgsql as $$
declare
  v_now bigint := now_ms();
  l lanes;
  t instances;
begin
  for i in 1 .. cardinality(p_places) loop
    l := held_instance(p_places[i], p_epochs[i], v_now);
    select * into t from instances where queue = l.queue and key = l.key;
    if t.number is null or t.outcome is not null or p_executions[i] <> t.execution
       or p_before[i] > t.length then
      perform refuse('STHIS', format(
        'instance ''%s'': execution %s cannot be trimmed to event %s: the last execution is %s (%s) '
        'at length %s', shown(l.key), p_executions[i], p_before[i], coalesce(t.execution, 0),
        case when t.number is null then 'there is none' when t.outcome is null then 'open'
             else 'closed' end,
        coalesce(t.length, 0)));
    end if;
    continue when p_before[i] <= t.first_event;
    delete from events where instance = t.number and execution = t.execution
       and number >= t.first_event and number < p_before[i];
    update instances set first_event = p_before[i] where number = t.number;
  end loop;
end $$;

-- Writes records, in order; a value that is null removes one. Returns the versions.
create function write_records(p_spaces bytea[], p_keys bytea[], p_values bytea[],
                              p_expected bigint[])
returns bigint[] language plpgsql as $$
declare
  v_result bigint[] := '{}';
  v_version bigint;
begin
  for i in 1 .. cardinality(p_spaces) loop
    v_version := null;
    select version into v_version from records
     where space = p_spaces[i] and key = p_keys[i] for update;
    if p_expected[i] is not null and coalesce(v_version, 0) <> p_expected[i] then
      perform refuse_version(p_spaces[i], p_keys[i], p_expected[i], coalesce(v_version, 0));
    end if;
    if p_values[i] is null then
      delete from records where space = p_spaces[i] and key = p_keys[i];
      v_result := v_result || 0::bigint;
    else
      v_result := v_result || nextval('numbers');
      if p_expected[i] = 0 then
        insert into records values (p_spaces[i], p_keys[i], v_result[i], p_values[i])
        on conflict do nothing;
        -- Somebody else was first.
        if not found then perform refuse_version(p_spaces[i], p_keys[i], 0, -1); end if;
      else
        insert into records values (p_spaces[i], p_keys[i], v_result[i], p_values[i])
        on conflict (space, key) do update
          set version = excluded.version, value = excluded.value;
      end if;
    end if;
    perform tell_record(p_spaces[i], p_keys[i]);
  end loop;
  update receipts set versions = v_result
   where client = transaction_client() and number = transaction_number();
  return v_result;
end $$;

create function refuse_version(p_space bytea, p_key bytea, p_expected bigint, p_found bigint)
returns void language plpgsql as $$
begin
  perform refuse('STVER', format('record ''%s'' in space ''%s'' was expected at version %s and is at '
                                 '%s: read it again', shown(p_key), shown(p_space), p_expected,
                                 case p_found when -1 then 'another' else p_found::text end));
end $$;
