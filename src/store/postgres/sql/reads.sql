-- What can be looked at.

-- Whether a bundle has the lease of an unkeyed message.
create function is_bundled(m messages) returns boolean language sql stable as $$
  select m.turn is not null and not exists (
    select 1 from ready r where r.queue = m.queue and r.priority = m.priority and r.turn = m.turn)
$$;

create function state_of(l lanes, m messages, p_bundled boolean) returns int
language sql immutable as $$
  select case when m.epoch is not null or p_bundled then 4                       -- leased
              when coalesce(l.park_reason, m.park_reason) is not null then 5     -- parked
              when m.wakes_at is not null and m.not_before is not null then 2    -- backoff
              when m.wakes_at is not null then 1                                 -- delayed
              when l.epoch is not null
                or (m.due, m.id) >= (l.barrier_due, l.barrier_id) then 3         -- waiting
              else 0 end                                                         -- ready
$$;

create type peeked as (
  id bigint, key bytea, label text, state int, body bytea, headers bytea, priority int,
  deliveries int, attempts int, enqueued_at bigint, due bigint, expires_at bigint, name bytea,
  topic text, retry_at bigint, last_reason bytea, park_reason bytea);

create function peek(p_queue text, p_key bytea, p_state int, p_after bigint, p_limit int)
returns setof peeked language plpgsql stable as $$
declare
  q queues := known_queue(p_queue);
  l lanes;
  v_due bigint;
begin
  if p_key is null then
    return query
      select w.id, w.key, w.label, w.state, w.body, w.headers, w.priority, w.deliveries,
             w.attempts, w.enqueued_at, w.due, w.expires_at, w.name, w.topic,
             case when w.state = 2 then w.not_before end, w.last_reason, w.park_reason
        from (select m.id, l0.key, case when m.lane is null then m.label else l0.label end as label,
                     state_of(l0, m, u.bundled) as state, coalesce(m.body, b.body, '') as body,
                     m.headers, m.priority, m.deliveries + u.bundled::int as deliveries, m.attempts,
                     m.enqueued_at, m.due, m.expires_at, m.name, m.topic, m.not_before,
                     m.failure_reasons[cardinality(m.failure_reasons)] as last_reason,
                     coalesce(l0.park_reason, m.park_reason) as park_reason
                from messages m left join lanes l0 on l0.id = m.lane
                left join bodies b on b.id = m.body_at,
                     lateral (select is_bundled(m) as bundled offset 0) u
               where m.queue = q.id and (p_after is null or m.id > p_after)
               order by m.id offset 0) w
       where p_state is null or w.state = p_state limit p_limit;
    return;
  end if;
  select * into l from lanes where queue = q.id and key = p_key;
  if l.id is null then return; end if;
  if p_after is not null then
    select due into v_due from messages where queue = q.id and id = p_after and lane = l.id;
    if v_due is null then
      perform refuse('STNFD', format('message %s is not in the lane ''%s'' any more: start again',
                                     p_after, shown(p_key)));
    end if;
  end if;
  return query
    select m.id, l.key, l.label, state_of(l, m, false), coalesce(m.body, b.body, ''), m.headers,
           m.priority, m.deliveries, m.attempts, m.enqueued_at, m.due, m.expires_at, m.name,
           m.topic, case when state_of(l, m, false) = 2 then m.not_before end,
           m.failure_reasons[cardinality(m.failure_reasons)], l.park_reason
      from messages m left join bodies b on b.id = m.body_at
     where m.lane = l.id and (p_after is null or (m.due, m.id) > (v_due, p_after))
       and (p_state is null or state_of(l, m, false) = p_state)
     order by m.due, m.id limit p_limit;
end $$;

create function behind_barrier(l lanes) returns bigint language plpgsql stable as $$
begin
  return l.woken_0 + l.woken_1 + l.woken_2 + l.woken_3 -
         (select count(*) from messages m
           where m.lane = l.id and (m.due, m.id) < (l.barrier_due, l.barrier_id)
             and m.wakes_at is null and m.epoch is null);
end $$;

create function stats(p_queue text,
                      out accepted bigint, out acked bigint, out expired bigint,
                      out dropped bigint, out moved bigint, out purged bigint, out dead bigint,
                      out ready bigint, out delayed bigint, out waiting bigint, out leased bigint,
                      out parked bigint, out backoff bigint, out lanes_ready bigint,
                      out leases bigint, out oldest_ready bigint)
language plpgsql stable as $$
declare
  q queues := known_queue(p_queue);
  k record;
  u record;
  v_bundled bigint;
begin
  select coalesce(sum(t.accepted), 0), coalesce(sum(t.acked), 0), coalesce(sum(t.expired), 0),
         coalesce(sum(t.dropped), 0), coalesce(sum(t.moved), 0), coalesce(sum(t.purged), 0),
         coalesce(sum(t.dead), 0)
    into accepted, acked, expired, dropped, moved, purged, dead
    from tallies t where t.queue = q.id;

  select coalesce(sum(case when l.park_reason is null and l.epoch is null then w.woken - w.held end), 0) as ready,
         coalesce(sum(case when l.park_reason is null then l.waiting end), 0) as delayed,
         coalesce(sum(case when l.park_reason is null then l.backoff end), 0) as backoff,
         coalesce(sum(case when l.park_reason is not null then 0
                           when l.epoch is not null then w.woken else w.held end), 0) as waiting,
         coalesce(sum(l.carried), 0) as leased,
         coalesce(sum(case when l.park_reason is not null then l.live - l.carried end), 0) as parked,
         count(l.turn) as lanes_ready, count(l.epoch) as leases,
         coalesce(sum(l.live), 0) as live
    into k
    from lanes l,
         lateral (select l.woken_0 + l.woken_1 + l.woken_2 + l.woken_3 as woken,
                         case when l.barrier_due is not null and l.epoch is null
                                   and l.park_reason is null
                              then behind_barrier(l) else 0 end as held) w
   where l.queue = q.id;
  ready := k.ready;
  delayed := k.delayed;
  backoff := k.backoff;
  waiting := k.waiting;
  leased := k.leased;
  parked := k.parked;
  lanes_ready := k.lanes_ready;
  leases := k.leases;

  -- Unkeyed messages are counted one by one, if there are any.
  if accepted - acked - expired - dropped - moved - purged - dead <> k.live then
    select count(*) filter (where m.turn is not null) as lined_up,
           count(*) filter (where m.epoch is null and m.park_reason is null
                              and m.wakes_at is not null) as delayed,
           count(*) filter (where m.epoch is null and m.park_reason is null
                              and m.wakes_at is not null and m.not_before is not null) as backoff,
           count(*) filter (where m.epoch is not null) as leased,
           count(*) filter (where m.epoch is null and m.park_reason is not null) as parked
      into u from messages m where m.queue = q.id and m.lane is null;
    select coalesce(sum(b.held), 0) into v_bundled from bundles b where b.queue = q.id;
    ready := ready + u.lined_up - v_bundled;
    delayed := delayed + u.delayed;
    backoff := backoff + u.backoff;
    leased := leased + u.leased + v_bundled;
    parked := parked + u.parked;
    lanes_ready := lanes_ready + u.lined_up - v_bundled;
    leases := leases + u.leased + v_bundled;
  end if;
  select e.ready_since into oldest_ready from (
    (select l.turn, l.ready_since from generate_series(0, 3) p, lateral (
       select * from lanes where queue = q.id and priority = p and turn is not null
        order by turn limit 1) l)
    union all
    (select r.turn, r.since from generate_series(0, 3) p, lateral (
       select * from ready where queue = q.id and priority = p order by turn limit 1) r)) e
   order by e.turn limit 1;
end $$;

create function dead_letters(p_queue text, p_after bigint, p_limit int)
returns table (id bigint, key bytea, label text, body bytea, headers bytea, priority int,
               deliveries int, attempts int, enqueued_at bigint, due bigint, expires_at bigint,
               name bytea, topic text, dead_at bigint, reason bytea, failure_times bigint[],
               failure_reasons bytea[])
language plpgsql stable as $$
declare
  q queues := known_queue(p_queue);
begin
  return query
    select d.id, d.key, d.label, coalesce(d.body, b.body, ''), d.headers, d.priority, d.deliveries,
           d.attempts, d.enqueued_at, d.due, d.expires_at, d.name, d.topic, d.dead_at, d.reason,
           d.failure_times, d.failure_reasons
      from dead d left join bodies b on b.id = d.body_at
     where d.queue = q.id and (p_after is null or d.id > p_after)
     order by d.id limit p_limit;
end $$;

-- The execution asked for (0: the last one) with its events, a row for each from p_from on, or one
-- row without. Both are of one moment, so that no trim comes between them.
create function read_history(p_queue text, p_key bytea, p_execution bigint, p_from bigint,
                             p_limit bigint)
returns table (execution bigint, length bigint, first_event bigint, label text, outcome bytea,
               opened_at bigint, updated_at bigint, event bytea)
language plpgsql stable as $$
declare
  q queues := known_queue(p_queue);
  x record;
begin
  select i.number as instance, i.execution, i.length, i.first_event, i.label, i.outcome,
         i.opened_at, i.updated_at into x
    from instances i where i.queue = q.id and i.key = p_key
     and (p_execution = 0 or i.execution = p_execution);
  if not found then
    select e.* into x
      from instances i join executions e on e.instance = i.number and e.execution = p_execution
     where i.queue = q.id and i.key = p_key;
    if not found then return; end if;
  end if;
  return query
    select x.execution, x.length, x.first_event, x.label, x.outcome, x.opened_at, x.updated_at,
           v.event
      from (values (1)) one left join lateral (
        select e.number, e.event from events e
         where e.instance = x.instance and e.execution = x.execution
           and e.number >= greatest(p_from, x.first_event)
         order by e.number limit p_limit) v on true
     order by v.number;
end $$;

create function list_instances(p_queue text, p_open boolean, p_after bytea, p_limit int)
returns table (key bytea, execution bigint, length bigint, first_event bigint, label text,
               outcome bytea, opened_at bigint, updated_at bigint)
language plpgsql stable as $$
declare
  q queues := known_queue(p_queue);
begin
  return query
    select i.key, i.execution, i.length, i.first_event, i.label, i.outcome, i.opened_at,
           i.updated_at
      from instances i
     where i.queue = q.id and (p_after = '' or i.key > p_after)
       and (p_open is null or p_open = (i.outcome is null))
     order by i.key limit p_limit;
end $$;

-- Records of a space by key. p_end is the first key behind the prefix, or null.
create function list_records(p_space bytea, p_first bytea, p_after bytea, p_end bytea, p_limit int)
returns table (key bytea, version bigint, value bytea) language sql stable as $$
  select r.key, r.version, r.value from records r
   where r.space = p_space and r.key >= p_first and (p_after = '' or r.key > p_after)
     and (p_end is null or r.key < p_end)
   order by r.key limit p_limit
$$;
