-- Administration. Each function returns how many messages or lanes it concerned.

create function note_affected(p_affected bigint) returns bigint language plpgsql as $$
begin
  update receipts set affected = p_affected
   where client = transaction_client() and number = transaction_number();
  return p_affected;
end $$;

create function configure_queue(p_queue text, p_max_attempts bigint, p_backoff bigint[],
                                p_jitter int, p_retry_policy text, p_on_exhausted text,
                                p_ttl bigint, p_on_expired text, p_dedup_window bigint,
                                p_lease bigint, p_starvation_after bigint, p_max_length bigint,
                                p_notice_queue text, p_notice_key bytea, p_queues_max bigint)
returns bigint language plpgsql as $$
begin
  perform ensure_queue(p_queue, p_queues_max);
  update queues set
    max_attempts = p_max_attempts, backoff = p_backoff, jitter_percent = p_jitter,
    retry_policy = p_retry_policy, on_exhausted = p_on_exhausted, ttl = p_ttl,
    on_expired = p_on_expired, dedup_window = p_dedup_window, lease = p_lease,
    starvation_after = p_starvation_after, max_length = p_max_length,
    notice_queue = p_notice_queue, notice_key = p_notice_key
  where name = p_queue;
  return note_affected(0);
end $$;

create function pause_queue(p_queue text, p_paused boolean) returns bigint language plpgsql as $$
declare
  q queues := known_queue(p_queue);
begin
  update queues set paused = p_paused where id = q.id;
  if not p_paused then
    perform tell_queue(q.id);
    -- Holders could not pull meanwhile.
    perform tell_lease(epoch) from lanes where queue = q.id and epoch is not null;
  end if;
  return note_affected(0);
end $$;

create function resume_lane(p_queue text, p_key bytea, p_id bigint) returns bigint
language plpgsql as $$
declare
  v_now bigint := now_ms();
  q queues := known_queue(p_queue);
  l lanes;
  m messages;
  v_count bigint := 0;
begin
  if p_id is not null then
    select * into m from messages
     where queue = q.id and id = p_id and lane is null and park_reason is not null for update;
    if m.id is null then
      perform refuse('STNFD', format('queue ''%s'' has no parked unkeyed message %s', p_queue, p_id));
    end if;
    m.park_reason := null;
    m.attempts := 0;
    m.not_before := null;
    perform give_back(null, m, v_now);
    return note_affected(1);
  end if;
  select * into l from lanes where queue = q.id and key = p_key for update;
  if l.id is null or l.park_reason is null then
    perform refuse('STNFD', format('queue ''%s'' has no parked lane ''%s''', p_queue, shown(p_key)));
  end if;
  l.park_reason := null;
  for m in select * from messages where lane = l.id and epoch is null order by due, id loop
    v_count := v_count + 1;
    -- It is over, and whoever applies what is due has not come to it yet.
    continue when m.expires_at <= v_now;
    l := unlink_message(l, m);
    l.live := l.live + 1;
    m.attempts := 0;
    m.not_before := null;
    m.blocks := false;
    l := give_back(l, m, v_now);
  end loop;
  l := find_barrier(l);
  perform save_lane(l, v_now);
  return note_affected(v_count);
end $$;

-- Ends the messages below an id of which nobody is told, which are mostly all, in one go.
create function purge_silent(p_queue int, p_lane bigint, p_below bigint, p_now bigint)
returns bigint language plpgsql as $$
declare
  l lanes;
  v_count bigint;
  v_bytes bigint;
  v_bodies bigint[];
  v_lanes bigint[];
  v_priorities int[];
  v_turns bigint[];
begin
  with gone as (
    delete from messages where queue = p_queue and (p_lane is null or lane = p_lane)
       and epoch is null and notice_queue is null and id < p_below returning *),
  counted as (
    select lane, count(*) as total, count(*) filter (where wakes_at is not null) as waiting,
           count(*) filter (where wakes_at is not null and not_before is not null) as backoff,
           count(*) filter (where wakes_at is null and priority = 0) as woken_0,
           count(*) filter (where wakes_at is null and priority = 1) as woken_1,
           count(*) filter (where wakes_at is null and priority = 2) as woken_2,
           count(*) filter (where wakes_at is null and priority = 3) as woken_3
      from gone where lane is not null group by lane),
  lessened as (
    update lanes t set live = t.live - c.total, waiting = t.waiting - c.waiting,
                       backoff = t.backoff - c.backoff, woken_0 = t.woken_0 - c.woken_0,
                       woken_1 = t.woken_1 - c.woken_1, woken_2 = t.woken_2 - c.woken_2,
                       woken_3 = t.woken_3 - c.woken_3
      from counted c where t.id = c.lane returning t.id)
  select (select count(*) from gone), (select sum(bytes + 144) from gone),
         (select array_agg(distinct body_at) from gone where body_at is not null),
         (select array_agg(id order by id) from lessened),
         (select array_agg(priority) from gone where turn is not null),
         (select array_agg(turn) from gone where turn is not null)
    into v_count, v_bytes, v_bodies, v_lanes, v_priorities, v_turns;
  -- Only now, because some may have got their turns while this waited for them.
  delete from ready r using unnest(v_priorities, v_turns) as u (priority, turn)
   where r.queue = p_queue and r.priority = u.priority and r.turn = u.turn;
  perform tally(p_queue, 'purged', v_count, -v_bytes);
  if v_bodies is not null then perform release_body(b) from unnest(v_bodies) b; end if;
  for l in select * from lanes where id = any (v_lanes) order by id loop
    if l.epoch is not null and l.barrier_due is not null then perform tell_lease(l.epoch); end if;
    perform save_lane(find_barrier(l), p_now);
  end loop;
  return v_count;
end $$;

-- Ends all that no lease carries, in the order of ids, because notices of it may go into this very
-- queue. Those that come so are spared.
create function purge_messages(p_queue int, p_lane bigint, p_now bigint) returns bigint
language plpgsql as $$
declare
  m messages;
  l lanes;
  v_count bigint := 0;
  v_end bigint := nextval('numbers');
begin
  perform open_bundles_of(p_queue);
  for m in select * from messages where queue = p_queue and (p_lane is null or lane = p_lane)
              and epoch is null and notice_queue is not null and id < v_end order by id loop
    v_count := v_count + purge_silent(p_queue, p_lane, m.id, p_now) + 1;
    l := null;
    if m.lane is not null then select * into l from lanes where id = m.lane; end if;
    l := end_message(l, m, 'purged', null, p_now);
    if m.lane is not null then perform save_lane(l, p_now); end if;
  end loop;
  return v_count + purge_silent(p_queue, p_lane, v_end, p_now);
end $$;

create function purge_queue(p_queue text, p_key bytea) returns bigint language plpgsql as $$
declare
  q queues := known_queue(p_queue);
  v_lane bigint;
begin
  perform own_queue(q.id);
  if p_key is not null then
    select id into v_lane from lanes where queue = q.id and key = p_key for update;
    if v_lane is null then return note_affected(0); end if;
  end if;
  return note_affected(purge_messages(q.id, v_lane, now_ms()));
end $$;

create function remove_queue(p_queue text, p_force boolean) returns bigint language plpgsql as $$
declare
  v_now bigint := now_ms();
  q queues := known_queue(p_queue);
  l lanes;
  m messages;
  v_leases bigint;
  v_open bigint;
  v_dead bigint;
  v_live bigint;
  v_bodies bigint[];
begin
  -- Upkeep adds up tallies: the sum of those of this queue would come after they were deleted here,
  -- and be found by the next queue with this number.
  perform pg_advisory_xact_lock(hashtextextended('strand upkeep ' || current_schema(), 0));
  perform own_queue(q.id);
  perform open_bundles_of(q.id);
  select (select count(*) from lanes where queue = q.id and epoch is not null) +
         (select count(*) from messages where queue = q.id and lane is null and epoch is not null),
         (select count(*) from instances where queue = q.id and outcome is null),
         (select count(*) from dead where queue = q.id)
    into v_leases, v_open, v_dead;
  if not p_force and (v_leases > 0 or v_open > 0) then
    perform refuse('STUSE', format('queue ''%s'' has %s leases and %s open executions: end them '
                                   'first, or remove it by force', p_queue, v_leases, v_open));
  end if;
  -- Notices into the queue itself would have no place to go to.
  perform set_config('strand.removing', p_queue, true);
  for l in select * from lanes where queue = q.id and epoch is not null order by epoch for update loop
    l := take_lease_away(l, v_now);
    perform save_lane(l, v_now);
  end loop;
  for m in select * from messages where queue = q.id and lane is null and epoch is not null
            order by epoch for update loop
    perform tell_lease(m.epoch);
    perform give_back(null, m, v_now);
  end loop;
  v_live := purge_messages(q.id, null, v_now);
  select array_agg(distinct body_at) into v_bodies
    from dead where queue = q.id and body_at is not null;
  delete from dead where queue = q.id;
  if v_bodies is not null then perform release_body(b) from unnest(v_bodies) b; end if;
  delete from events e using instances i where i.queue = q.id and e.instance = i.number;
  delete from executions e using instances i where i.queue = q.id and e.instance = i.number;
  delete from instances where queue = q.id;
  delete from dedup where queue = q.id;
  delete from lanes where queue = q.id;
  -- Whoever waits for the queue should look again.
  perform tell_queue(q.id);
  delete from tallies where queue = q.id;
  delete from queues where id = q.id;
  perform set_config('strand.removing', '', true);
  return note_affected(v_live + v_dead);
end $$;

-- --- Dead letters ---

create function check_dead(q queues, p_ids bigint[]) returns void language plpgsql as $$
declare
  v_id bigint;
begin
  -- Whoever takes the same ones waits here, and then sees that they are gone.
  perform 1 from (select id from dead where queue = q.id and id = any (p_ids) order by id
                     for update) locked;
  select u into v_id from unnest(p_ids) u
   where not exists (select 1 from dead d where d.queue = q.id and d.id = u) limit 1;
  if v_id is not null then
    perform refuse('STNFD', format('queue ''%s'' has no dead letter %s; nothing was changed',
                                   q.name, v_id));
  end if;
end $$;

create function redrive(p_queue text, p_ids bigint[], p_to text, p_queues_max bigint,
                        p_bytes_max bigint)
returns bigint language plpgsql as $$
declare
  v_now bigint := now_ms();
  q queues := known_queue(p_queue);
  d dead;
  v_to int;
begin
  perform share_queue(q.id);
  perform check_dead(q, p_ids);
  if p_to is not null and p_to <> p_queue then
    if (select sum(octet_length(body)) from dead where queue = q.id and id = any (p_ids)) > p_bytes_max then
      perform refuse('STBIG', format('the bodies to move have more than %s bytes in all '
                                     '(transaction_bytes_max): move fewer at a time', p_bytes_max));
    end if;
    v_to := ensure_queue(p_to, p_queues_max);
  end if;
  for i in 1 .. cardinality(p_ids) loop
    delete from dead where queue = q.id and id = p_ids[i] returning * into d;
    if v_to is null then
      perform redrive_here(d, v_now);
      perform tally(q.id, 'dead', -1, d.bytes + 144);
    else
      perform accept(v_now, array[v_to], array[d.key], array[d.body], array[d.body_at],
                     array[d.headers], array[d.bytes], array[d.priority], array[0::bigint],
                     array[null::bigint], array[d.label], array[null::bytea],
                     array[d.max_attempts], array[d.notice_queue], array[d.notice_key],
                     array[d.topic], d.notice);
      perform tally(q.id, 'dead', -1, 0);
      perform tally(q.id, 'moved', 1, 0);
    end if;
  end loop;
  return note_affected(cardinality(p_ids));
end $$;

-- Back to its old place; attempts start again.
create function redrive_here(d dead, p_now bigint) returns void language plpgsql as $$
declare
  l lanes;
  m messages;
  v_wakes bigint := case when d.due > p_now then d.due end;
begin
  if d.key is not null then
    perform lock_lanes(array[d.queue], array[d.key]);
    select * into l from lanes where queue = d.queue and key = d.key;
    if l.label = '' and d.label <> '' then l := set_label(l, d.label); end if;
    l.live := l.live + 1;
    l.last_time := greatest(l.last_time, d.enqueued_at);
    if v_wakes is null then
      l := count_woken(l, d.priority, 1);
      if l.epoch is not null then perform tell_lease(l.epoch); end if;
    else
      l.waiting := l.waiting + 1;
    end if;
  elsif v_wakes is null then
    m.queue := d.queue;
    m.id := d.id;
    m.priority := d.priority;
    m.bytes := d.bytes;
    m.label := d.label;
    m.turn := line_up(m, p_now);
  end if;
  insert into messages (queue, id, lane, due, priority, bytes, enqueued_at, wakes_at, deliveries,
                        turn, notice, max_attempts, label, name, notice_queue,
                        notice_key, topic, failure_times, failure_reasons, headers, body_at, body)
  values (d.queue, d.id, l.id, d.due, d.priority, d.bytes, d.enqueued_at, v_wakes, d.deliveries,
          m.turn, d.notice, d.max_attempts, d.label,
          case when not exists (select 1 from messages t where t.queue = d.queue and t.name = d.name)
               then d.name end,
          d.notice_queue, d.notice_key, d.topic, d.failure_times, d.failure_reasons, d.headers,
          d.body_at, d.body);
  if d.key is not null then perform save_lane(l, p_now); end if;
end $$;

create function drop_dead(p_queue text, p_ids bigint[]) returns bigint language plpgsql as $$
declare
  q queues := known_queue(p_queue);
  v_bodies bigint[];
begin
  perform share_queue(q.id);
  perform check_dead(q, p_ids);
  with gone as (delete from dead where queue = q.id and id = any (p_ids) returning body_at)
  select array_agg(distinct body_at) filter (where body_at is not null) into v_bodies from gone;
  if v_bodies is not null then perform release_body(b) from unnest(v_bodies) b; end if;
  perform tally(q.id, 'dead', -cardinality(p_ids), 0);
  perform tally(q.id, 'dropped', cardinality(p_ids), 0);
  return note_affected(cardinality(p_ids));
end $$;

-- --- Topics ---

create function subscribe(p_queue text, p_pattern text, p_from bigint, p_queues_max bigint,
                          p_subscriptions_max bigint, p_operations_max bigint)
returns bigint language plpgsql as $$
declare
  v_now bigint := now_ms();
  q queues;
  r record;
  v_queue int;
  v_count bigint := 0;
begin
  v_queue := ensure_queue(p_queue, p_queues_max);
  select * into q from queues where id = v_queue for update;
  if q.pattern is not null then
    if q.pattern = p_pattern then return note_affected(0); end if;
    perform refuse('STEXI', format('queue ''%s'' is subscribed to ''%s'' already: unsubscribe it '
                                   'first', p_queue, q.pattern));
  end if;
  if (select count(*) from queues where pattern is not null) >= p_subscriptions_max then
    perform refuse('STLIM', format('the store has %s subscriptions, its limit (subscriptions_max)',
                                   p_subscriptions_max));
  end if;
  update queues set pattern = p_pattern where id = q.id;
  if p_from is not null then
    for r in select t.* from retained t join topics c on c.name = t.topic
              where t.at >= p_from and t.at + c.retain > v_now
                and topic_matches(p_pattern, t.topic) order by t.id
                -- Whoever forgets one meanwhile waits, and then leaves its body to these messages.
                for share of t loop
      v_count := v_count + 1;
      if v_count > p_operations_max then
        perform refuse('STBIG', format('more than %s retained messages match, the limit '
                                       '(transaction_operations_max): start later',
                                       p_operations_max));
      end if;
      perform deliver(v_now, array[q.id], r.topic, r.key, null, r.id, r.headers, r.bytes,
                      r.priority, 0, r.ttl);
    end loop;
  end if;
  return note_affected(v_count);
end $$;

create function unsubscribe(p_queue text) returns bigint language plpgsql as $$
declare
  q queues := known_queue(p_queue);
begin
  if q.pattern is null then
    perform refuse('STNFD', format('queue ''%s'' is not subscribed to anything', p_queue));
  end if;
  update queues set pattern = null where id = q.id;
  return note_affected(0);
end $$;

create function configure_topic(p_topic text, p_retain bigint, p_topics_max bigint)
returns bigint language plpgsql as $$
declare
  v_bodies bigint[];
begin
  if p_retain > 0 then
    if not exists (select 1 from topics where name = p_topic)
       and (select count(*) from topics) >= p_topics_max then
      perform refuse('STLIM', format('the store has settings for %s topics, its limit '
                                     '(subscriptions_max)', p_topics_max));
    end if;
    insert into topics values (p_topic, p_retain)
    on conflict (name) do update set retain = excluded.retain;
    perform trim_retained(now_ms());
  else
    with gone as (delete from retained where topic = p_topic returning id)
    select array_agg(id) into v_bodies from gone;
    delete from topics where name = p_topic;
    perform release_body(b) from unnest(v_bodies) b;
  end if;
  return note_affected(0);
end $$;
