-- How messages come in: sends, publications, notices, what is redriven.

-- Accepts messages, in this order, and returns their ids. The arrays are parallel, and null where
-- no message has such a thing; the queues exist. Lanes are locked here if they are not yet.
create function accept(p_now bigint, p_queues int[], p_keys bytea[], p_bodies bytea[],
                       p_body_ats bigint[], p_headers bytea[], p_bytes int[], p_priorities int[],
                       p_delays bigint[], p_ttls bigint[], p_labels text[], p_names bytea[],
                       p_max_attempts bigint[], p_notice_queues text[], p_notice_keys bytea[],
                       p_topics text[], p_notice boolean)
returns bigint[] language plpgsql as $$
declare
  v_ids bigint[];
  v_soon bigint;
  v_keyed boolean;
  v_lanes int;
  v_one boolean := p_queues[1] = all (p_queues);
  v_tell record;
begin
  -- Ids are taken under the locks of the lanes: their order has to be that of commits.
  select coalesce(bool_or(k is not null), false) into v_keyed from unnest(p_keys) k;
  if v_keyed then
    v_lanes := lock_lanes(p_queues, p_keys);
  else
    -- A turn is never older than the number of its transaction: see `low` and `high` of leases.
    perform txid_current();
  end if;
  v_ids := array(select nextval('numbers') from unnest(p_queues));

  if v_keyed or not v_one then
    -- Acceptance in a lane is never before that of the message in front, whatever the clocks say.
    insert into messages (queue, id, lane, due, priority, bytes, enqueued_at, expires_at, ttl_at,
                          wakes_at, turn, notice, max_attempts, label, name, notice_queue,
                          notice_key, topic, headers, body_at, body)
    select a.queue, a.id, a.lane, a.at + a.delay, a.priority, a.bytes, a.at, a.at + a.ttl,
           a.at + a.ttl, case when a.delay > 0 then a.at + a.delay end,
           case when a.lane is null and a.delay = 0 then a.id end, p_notice, a.max_attempts, coalesce(a.label, ''), a.name, a.notice_queue, a.notice_key,
           a.topic, nullif(a.headers, ''), a.body_at, case when a.body_at is null then a.body end
      from (select u.id, u.queue, u.body, u.body_at, u.headers, u.bytes, u.priority,
                   coalesce(u.after, 0) as delay, u.label, u.name, u.max_attempts, u.notice_queue,
                   u.notice_key, u.topic, l.id as lane, greatest(p_now, l.last_time) as at,
                   coalesce(u.own_ttl, q.ttl) as ttl
              from unnest(v_ids, p_queues, p_keys, p_bodies, p_body_ats, p_headers, p_bytes,
                          p_priorities, p_delays, p_ttls, p_labels, p_names, p_max_attempts,
                          p_notice_queues, p_notice_keys, p_topics)
                   as u (id, queue, key, body, body_at, headers, bytes, priority, after, own_ttl,
                         label, name, max_attempts, notice_queue, notice_key, topic)
              join queues q on q.id = u.queue
              left join lanes l on l.queue = u.queue and l.key = u.key) a;
    if array_position(p_keys, null) is not null or p_keys is null then
      insert into ready (queue, priority, turn, id, since, ttl_at, bytes, label)
      select u.queue, u.priority, u.id, u.id, p_now, p_now + coalesce(u.own_ttl, q.ttl), u.bytes,
             coalesce(u.label, '')
        from unnest(v_ids, p_queues, p_keys, p_bytes, p_priorities, p_delays, p_ttls, p_labels)
             as u (id, queue, key, bytes, priority, after, own_ttl, label)
        join queues q on q.id = u.queue
       where u.key is null and coalesce(u.after, 0) = 0;
    end if;
  else
    -- The same for unkeyed messages of one queue.
    insert into messages (queue, id, due, priority, bytes, enqueued_at, expires_at, ttl_at,
                          wakes_at, turn, notice, max_attempts, label, name, notice_queue,
                          notice_key, topic, headers, body_at, body)
    select p_queues[1], u.id, p_now + coalesce(u.after, 0), u.priority, u.bytes, p_now,
           p_now + coalesce(u.own_ttl, q.ttl), p_now + coalesce(u.own_ttl, q.ttl),
           case when u.after > 0 then p_now + u.after end,
           case when u.after > 0 then null else u.id end, p_notice, u.max_attempts, coalesce(u.label, ''), u.name, u.notice_queue, u.notice_key,
           u.topic, nullif(u.headers, ''), u.body_at, case when u.body_at is null then u.body end
      from queues q,
           unnest(v_ids, p_bodies, p_body_ats, p_headers, p_bytes, p_priorities, p_delays, p_ttls,
                  p_labels, p_names, p_max_attempts, p_notice_queues, p_notice_keys, p_topics)
           as u (id, body, body_at, headers, bytes, priority, after, own_ttl, label, name,
                 max_attempts, notice_queue, notice_key, topic)
     where q.id = p_queues[1];
    insert into ready (queue, priority, turn, id, since, ttl_at, bytes, label)
    select p_queues[1], u.priority, u.id, u.id, p_now, p_now + coalesce(u.own_ttl, q.ttl), u.bytes,
           coalesce(u.label, '')
      from queues q, unnest(v_ids, p_bytes, p_priorities, p_delays, p_ttls, p_labels)
                     as u (id, bytes, priority, after, own_ttl, label)
     where q.id = p_queues[1] and coalesce(u.after, 0) = 0;
  end if;

  if v_keyed then
    perform join_lanes(p_now, v_ids, p_queues, p_keys, p_priorities, p_delays, p_labels, v_lanes);
  end if;

  if v_one then
    insert into tallies (queue, accepted, bytes)
    select p_queues[1], count(*), sum(u.bytes + 144) from unnest(p_bytes) as u (bytes);
  else
    insert into tallies (queue, accepted, bytes)
    select u.queue, count(*), sum(u.bytes + 144)
      from unnest(p_queues, p_bytes) as u (queue, bytes) group by u.queue;
  end if;

  if v_keyed and p_delays is null and array_position(p_keys, null) is null then
    null;  -- join_lanes has told
  elsif v_keyed or not v_one or p_delays is not null then
    for v_tell in select distinct u.queue
                    from unnest(p_queues, p_keys, p_delays) as u (queue, key, after)
                   where u.key is null and coalesce(u.after, 0) = 0 loop
      perform tell_queue(v_tell.queue);
    end loop;
    select min(u) into v_soon from unnest(p_delays) u where u > 0;
    if v_soon < 1000 then perform tell_due(p_now + v_soon); end if;
  else
    perform tell_queue(p_queues[1]);
  end if;
  return v_ids;
end $$;

-- Counts new messages into their lanes, which are locked, and gives these their turns: that of the
-- first message that made the lane ready.
create function join_lanes(p_now bigint, p_ids bigint[], p_queues int[], p_keys bytea[],
                           p_priorities int[], p_delays bigint[], p_labels text[], p_lanes int)
returns void language plpgsql as $$
declare
  r record;
  v_told int;
  v_joined int := 0;
begin
  for r in
    update lanes l set
      live = l.live + c.total,
      waiting = l.waiting + c.waiting,
      woken_0 = l.woken_0 + c.woken_0,
      woken_1 = l.woken_1 + c.woken_1,
      woken_2 = l.woken_2 + c.woken_2,
      woken_3 = l.woken_3 + c.woken_3,
      last_time = greatest(l.last_time, p_now),
      label = case when l.label = '' then coalesce(c.label, '') else l.label end,
      -- Whatever comes now stands behind a barrier.
      priority = case when l.barrier_due is not null or c.best is null then l.priority
                      when l.turn is null then c.best
                      else least(l.priority, c.best) end,
      ready_since = case when l.turn is null and l.epoch is null and l.park_reason is null
                              and l.barrier_due is null and c.first is not null
                         then p_now else l.ready_since end,
      turn = case when l.turn is null and l.epoch is null and l.park_reason is null
                       and l.barrier_due is null then c.first else l.turn end
      from (select u.queue, u.key, count(*) as total,
                   count(*) filter (where u.later) as waiting,
                   count(*) filter (where not u.later and u.priority = 0) as woken_0,
                   count(*) filter (where not u.later and u.priority = 1) as woken_1,
                   count(*) filter (where not u.later and u.priority = 2) as woken_2,
                   count(*) filter (where not u.later and u.priority = 3) as woken_3,
                   min(u.id) filter (where not u.later) as first,
                   min(u.priority) filter (where not u.later) as best,
                   (array_agg(u.label order by u.id) filter (where u.label <> ''))[1] as label
              from (select w.id, w.queue, w.key, w.priority, w.label,
                           coalesce(w.after, 0) > 0 as later
                      from unnest(p_ids, p_queues, p_keys, p_priorities, p_delays, p_labels)
                           as w (id, queue, key, priority, after, label)
                     where w.key is not null) u
             group by u.queue, u.key) c
     where l.queue = c.queue and l.key = c.key
    returning l.queue, l.key, l.turn, l.epoch, c.first, c.label as brought, l.label
  loop
    v_joined := v_joined + 1;
    if r.turn is not null and r.queue is distinct from v_told then
      perform tell_queue(r.queue);
      v_told := r.queue;
    end if;
    if r.epoch is not null and r.first is not null then perform tell_lease(r.epoch); end if;
    if r.brought = r.label then
      update instances i set label = r.label
       where i.queue = r.queue and i.key = r.key and i.outcome is null and i.label <> r.label;
    end if;
  end loop;
  -- A message without its lane would never be seen again.
  if v_joined <> p_lanes then
    raise exception 'a lane vanished while messages came into it' using errcode = '40001';
  end if;
end $$;

-- Whether a table of ids has more than so many that count, by the column that says until when they
-- do. Counting large ones would cost more than it is worth: there the planner's estimate has to do.
create function has_more_than(p_table regclass, p_until text, p_max bigint) returns boolean
language plpgsql stable as $$
declare
  v_count bigint;
begin
  if p_max >= 100000 then
    return (select reltuples from pg_class where oid = p_table) > p_max;
  end if;
  execute format('select count(*) from (select 1 from %s where %I > %s limit %s) t',
                 p_table, p_until, now_ms(), p_max + 1) into v_count;
  return v_count > p_max;
end $$;

-- Remembers a dedup id, for the transaction to fill in the message; false if it was seen before.
-- Who sends the same one at the same time waits here.
create function take_dedup(p_queue int, p_topic text, p_dedup_id bytea, p_window bigint,
                           p_now bigint) returns boolean
language plpgsql as $$
begin
  if p_window = 0 then
    return not exists (select 1 from dedup d where d.queue = p_queue and d.topic = p_topic
                          and d.dedup_id = p_dedup_id and d.ends_at > p_now);
  end if;
  insert into dedup as d (queue, topic, dedup_id, first, ends_at)
  values (p_queue, p_topic, p_dedup_id, 0, p_now + p_window)
  on conflict (queue, topic, dedup_id)
    do update set first = 0, ends_at = excluded.ends_at where d.ends_at <= p_now;
  return found;
end $$;

create function refuse_full_dedup(p_dedup_max bigint) returns void language plpgsql as $$
begin
  if has_more_than('dedup', 'ends_at', p_dedup_max) then
    perform refuse('STSFU', format('the store remembers %s dedup ids, its limit (dedup_ids_max): '
                                   'send without, or wait for their windows to end',
                                   p_dedup_max));
  end if;
end $$;

-- Refuses what does not fit into the store any more: p_room is what waiting messages may take in all,
-- by the estimate of 144 bytes for each beside its body and headers; null if it is far from full.
create function check_room(p_room bigint, p_bytes bigint) returns void language plpgsql as $$
declare
  v_taken bigint;
begin
  if p_room is null then return; end if;
  select coalesce(sum(bytes), 0) into v_taken from tallies;
  if v_taken + p_bytes > p_room then
    perform refuse('STSFU', format('the store holds %s bytes of waiting messages, and %s are allowed '
                                   '(memory_bytes_max): settle some first', v_taken, p_room));
  end if;
end $$;

-- Refuses sends into queues that are full. Sends into a queue with a limit take their turns.
create function check_lengths(p_queues int[]) returns void language plpgsql as $$
declare
  r record;
  v_live bigint;
begin
  if not exists (select 1 from queues where max_length > 0 and id = any (p_queues)) then
    return;
  end if;
  for r in select q.id, q.name, q.max_length, count(*) as sent
             from unnest(p_queues) as u (queue) join queues q on q.id = u.queue
            where q.max_length > 0 group by q.id, q.name, q.max_length order by q.id loop
    perform pg_advisory_xact_lock(hashtext('strand length ' || current_schema()), r.id);
    v_live := live_count(r.id) + unforeseen(r.id);
    if v_live + r.sent > r.max_length then
      perform refuse('STQFU', format('queue ''%s'' has %s live messages, and %s are allowed '
                                     '(max_length)', r.name, v_live, r.max_length));
    end if;
  end loop;
end $$;

-- The name of a setting that is good for one part of one of the client's transactions.
create function noted(p_what text, p_queue int) returns text language sql stable as $$
  select 'strand.' || p_what || '_' || p_queue || '_' || coalesce(current_setting('strand.part', true), '')
$$;

-- Messages that ended in this transaction in ways that a full queue does not count on (they
-- failed, and were exhausted or expired), less notices that came in.
create function unforeseen(p_queue int) returns bigint language sql stable as $$
  select coalesce(nullif(current_setting(noted('unforeseen', p_queue), true), ''), '0')::bigint
$$;
create function add_unforeseen(p_queue int, p_count bigint) returns void language sql as $$
  select set_config(noted('unforeseen', p_queue), (unforeseen(p_queue) + p_count)::text, true)
$$;

create function send(p_queues text[], p_keys bytea[], p_bodies bytea[], p_headers bytea[],
                     p_bytes int[], p_priorities int[], p_delays bigint[], p_ttls bigint[],
                     p_dedup_ids bytea[], p_labels text[], p_names bytea[],
                     p_max_attempts bigint[], p_notice_queues text[], p_notice_keys bytea[],
                     p_queues_max bigint, p_dedup_max bigint, p_room bigint,
                     out ids bigint[], out duplicates boolean[])
language plpgsql as $$
declare
  v_now bigint := now_ms();
  v_queues int[];
  v_count int := cardinality(p_queues);
  v_new int[];
  v_accepted bigint[];
  v_window bigint;
  v_dedup boolean;
begin
  -- Mostly all messages go to one queue.
  if v_count = 1 or p_queues[1] = all (p_queues) then
    v_queues := array_fill(ensure_queue(p_queues[1], p_queues_max), array[v_count]);
  else
    perform ensure_queue(name, p_queues_max)
       from (select distinct name collate "C" as name from unnest(p_queues) as u (name) order by 1) n;
    select array_agg(q.id order by u.n) into v_queues
      from unnest(p_queues) with ordinality as u (name, n) join queues q on q.name = u.name;
  end if;

  duplicates := array_fill(false, array[v_count]);
  v_dedup := p_dedup_ids is not null;
  if v_dedup then
    for i in 1 .. v_count loop
      if p_dedup_ids[i] is not null then
        select dedup_window into v_window from queues where id = v_queues[i];
        duplicates[i] := not take_dedup(v_queues[i], '', p_dedup_ids[i], v_window, v_now);
      end if;
    end loop;
    perform refuse_full_dedup(p_dedup_max);
  end if;
  if true = any (duplicates) then
    select array_agg(i order by i) into v_new
      from generate_series(1, v_count) i where not duplicates[i];
    ids := array_fill(null::bigint, array[v_count]);
    if v_new is not null then
      perform check_names(v_queues, p_names, v_new);
      perform check_room(p_room, (select sum(p_bytes[i] + 144) from unnest(v_new) i)::bigint);
      perform check_lengths((select array_agg(v_queues[i] order by i) from unnest(v_new) i));
      select accept(v_now, array_agg(v_queues[i] order by i), array_agg(p_keys[i] order by i),
                    array_agg(p_bodies[i] order by i), array_agg(null::bigint),
                    array_agg(p_headers[i] order by i), array_agg(p_bytes[i] order by i),
                    array_agg(p_priorities[i] order by i), array_agg(p_delays[i] order by i),
                    array_agg(p_ttls[i] order by i), array_agg(p_labels[i] order by i),
                    array_agg(p_names[i] order by i), array_agg(p_max_attempts[i] order by i),
                    array_agg(p_notice_queues[i] order by i),
                    array_agg(p_notice_keys[i] order by i), array_agg(null::text), false)
        into v_accepted from unnest(v_new) i;
      for i in 1 .. cardinality(v_new) loop ids[v_new[i]] := v_accepted[i]; end loop;
    end if;
  else
    if p_names is not null then perform check_names(v_queues, p_names, null); end if;
    if p_room is not null then
      perform check_room(p_room, (select sum(b + 144) from unnest(p_bytes) b)::bigint);
    end if;
    perform check_lengths(v_queues);
    ids := accept(v_now, v_queues, p_keys, p_bodies, null, p_headers, p_bytes, p_priorities,
                  p_delays, p_ttls, p_labels, p_names, p_max_attempts, p_notice_queues,
                  p_notice_keys, null, false);
  end if;

  for i in 1 .. case when v_dedup then v_count else 0 end loop
    continue when p_dedup_ids[i] is null;
    if duplicates[i] then
      ids[i] := (select d.first from dedup d
                  where d.queue = v_queues[i] and d.topic = '' and d.dedup_id = p_dedup_ids[i]);
    else
      update dedup d set first = ids[i]
       where d.queue = v_queues[i] and d.topic = '' and d.dedup_id = p_dedup_ids[i] and d.first = 0;
    end if;
  end loop;
  if transaction_client() is not null then
    update receipts set sent = ids, duplicate = duplicates
     where client = transaction_client() and number = transaction_number();
  end if;
end $$;

create function refuse_name(p_queue int, p_name bytea) returns void language plpgsql as $$
begin
  perform refuse('STNAM', format('queue ''%s'' has a live message named ''%s'': cancel it, or '
                                 'choose another name',
                                 (select name from queues where id = p_queue), shown(p_name)));
end $$;

-- p_new: which of them count; null if all do. A name must be free: now, and also before, unless the transaction itself ended its message in a
-- way that was foreseen.
create function check_names(p_queues int[], p_names bytea[], p_new int[]) returns void
language plpgsql as $$
declare
  r record;
begin
  if not exists (select 1 from unnest(p_names) as u (name) where u.name is not null) then
    return;
  end if;
  for r in select u.queue, u.name, count(*) as count
             from unnest(p_queues, p_names) with ordinality as u (queue, name, i)
            where u.name is not null and (p_new is null or u.i = any (p_new)) group by 1, 2 loop
    if r.count > 1
       or exists (select 1 from messages m where m.queue = r.queue and m.name = r.name)
       or current_setting(noted('freed_' || md5(r.name), r.queue), true) = 'late' then
      perform refuse_name(r.queue, r.name);
    end if;
  end loop;
end $$;

-- --- Topics ---

create function topic_matches(p_pattern text, p_topic text) returns boolean
language plpgsql immutable as $$
declare
  v_pattern text[] := string_to_array(p_pattern, '.');
  v_topic text[] := string_to_array(p_topic, '.');
  v_count int := cardinality(v_pattern);
begin
  if v_pattern[v_count] = '#' then
    v_count := v_count - 1;
    if cardinality(v_topic) < v_count then return false; end if;
  elsif cardinality(v_topic) <> v_count then
    return false;
  end if;
  for i in 1 .. v_count loop
    if v_pattern[i] <> '*' and v_pattern[i] <> v_topic[i] then return false; end if;
  end loop;
  return true;
end $$;

-- p_patterns: all patterns that match the topic, or null if they would be too many.
create function publish_one(p_topic text, p_patterns text[], p_key bytea, p_body bytea,
                            p_headers bytea, p_bytes int, p_priority int, p_delay bigint,
                            p_ttl bigint, p_dedup_id bytea, p_dedup_max bigint,
                            out id bigint, out duplicate boolean, out matched int)
language plpgsql as $$
declare
  v_now bigint := now_ms();
  v_queues int[];
  v_retain bigint;
begin
  duplicate := false;
  matched := 0;
  if p_dedup_id is not null then
    if not take_dedup(0, p_topic, p_dedup_id, 300000, v_now) then
      duplicate := true;
      select d.first into id from dedup d
       where d.queue = 0 and d.topic = p_topic and d.dedup_id = p_dedup_id;
      return;
    end if;
    perform refuse_full_dedup(p_dedup_max);
  end if;
  id := nextval('numbers');
  if p_dedup_id is not null then
    update dedup d set first = publish_one.id
     where d.queue = 0 and d.topic = p_topic and d.dedup_id = p_dedup_id;
  end if;
  if p_patterns is not null then
    select array_agg(q.id order by q.id) into v_queues from queues q where q.pattern = any (p_patterns);
  else
    select array_agg(q.id order by q.id) into v_queues
      from queues q where q.pattern is not null and topic_matches(q.pattern, p_topic);
  end if;
  matched := coalesce(cardinality(v_queues), 0);
  select retain into v_retain from topics where name = p_topic and retain > 0;

  if matched > 1 or v_retain is not null then
    insert into bodies values (id, p_body);
  end if;
  if v_retain is not null then
    insert into retained (topic, id, at, key, priority, ttl, headers, bytes)
    values (p_topic, id, v_now, p_key, p_priority, p_ttl, p_headers, p_bytes);
  end if;
  if matched > 0 then
    perform deliver(v_now, v_queues, p_topic, p_key, p_body,
                    case when matched > 1 or v_retain is not null then id end,
                    p_headers, p_bytes, p_priority, p_delay, p_ttl);
  end if;
end $$;

-- The same message for several queues. One that is full gets it as a dead letter: its limit is not
-- the publisher's business.
create function deliver(p_now bigint, p_queues int[], p_topic text, p_key bytea, p_body bytea,
                        p_body_at bigint, p_headers bytea, p_bytes int, p_priority int,
                        p_delay bigint, p_ttl bigint)
returns void language plpgsql as $$
declare
  v_count int := cardinality(p_queues);
  v_dims int[] := array[cardinality(p_queues)];
  v_full int[];
  v_ids bigint[];
  l lanes;
  m messages;
begin
  perform share_queue(q) from unnest(p_queues) q;
  perform pg_advisory_xact_lock(hashtext('strand length ' || current_schema()), q.id)
     from queues q where q.id = any (p_queues) and q.max_length > 0;
  select array_agg(q.id) into v_full from queues q
   where q.id = any (p_queues) and q.max_length > 0 and live_count(q.id) >= q.max_length;
  -- A dead letter may tell another of these queues before its own copy comes: one by one then.
  if v_full is not null and v_count > 1 then
    for i in 1 .. v_count loop
      perform deliver(p_now, p_queues[i:i], p_topic, p_key, p_body, p_body_at, p_headers, p_bytes,
                      p_priority, p_delay, p_ttl);
    end loop;
    return;
  end if;
  v_ids := accept(p_now, p_queues, array_fill(p_key, v_dims), array_fill(p_body, v_dims),
                  array_fill(p_body_at, v_dims), array_fill(p_headers, v_dims),
                  array_fill(p_bytes, v_dims), array_fill(p_priority, v_dims),
                  array_fill(p_delay, v_dims), array_fill(p_ttl, v_dims),
                  array_fill(''::text, v_dims), array_fill(null::bytea, v_dims),
                  array_fill(null::bigint, v_dims), array_fill(null::text, v_dims),
                  array_fill(null::bytea, v_dims), array_fill(p_topic, v_dims), false);
  for i in 1 .. v_count loop
    continue when v_full is null or not p_queues[i] = any (v_full);
    select * into m from messages where queue = p_queues[i] and id = v_ids[i];
    l := null;
    if m.lane is not null then select * into l from lanes where id = m.lane; end if;
    l := end_message(l, m, 'dead', 'queue full', p_now);
    if m.lane is not null then perform save_lane(l, p_now); end if;
  end loop;
end $$;

create function publish(p_topics text[], p_patterns text[], p_keys bytea[], p_bodies bytea[],
                        p_headers bytea[], p_bytes int[], p_priorities int[], p_delays bigint[],
                        p_ttls bigint[], p_dedup_ids bytea[], p_dedup_max bigint, p_room bigint,
                        out ids bigint[], out duplicates boolean[], out matches int[])
language plpgsql as $$
declare
  r record;
begin
  perform check_room(p_room, (select sum(b + 144) from unnest(p_bytes) b)::bigint);
  for i in 1 .. cardinality(p_topics) loop
    -- The patterns of one topic come as one text, separated by newlines, which no pattern has.
    r := publish_one(p_topics[i], string_to_array(p_patterns[i], E'\n'), p_keys[i], p_bodies[i],
                     p_headers[i], p_bytes[i], p_priorities[i], p_delays[i], p_ttls[i],
                     p_dedup_ids[i], p_dedup_max);
    ids[i] := r.id;
    duplicates[i] := r.duplicate;
    matches[i] := r.matched;
  end loop;
  if transaction_client() is not null then
    update receipts set published = ids, republished = duplicates, matched = matches
     where client = transaction_client() and number = transaction_number();
  end if;
end $$;
