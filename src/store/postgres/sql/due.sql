-- What time brings: delays, backoffs, hints, leases and TTLs that end. Each happens at its own time
-- and in the order of the times, so that the outcome does not depend on how often this is called.

-- Whether something is due. p_from: what was due before has been applied; what an index still has
-- there is dead, and would be walked in vain while somebody's old transaction keeps it from being
-- cleaned away.
create function due_now(p_from bigint, p_now bigint) returns boolean language plpgsql stable as $$
begin
  return exists (select 1 from messages where wakes_at between p_from and p_now)
      or exists (select 1 from lanes where lease_until between p_from and p_now)
      or exists (select 1 from messages where lease_until between p_from and p_now)
      or exists (select 1 from bundles where lease_until between p_from and p_now)
      or exists (select 1 from messages where ttl_at between p_from and p_now)
      or exists (select 1 from lanes where hint_until between p_from and p_now);
end $$;

-- When something will be due next, for whoever has to wake up then. A lane that its hint hides shows
-- itself to others when its grace is over.
create function next_due(p_from bigint) returns bigint language plpgsql stable as $$
begin
  return least((select min(wakes_at) from messages where wakes_at >= p_from),
               (select min(lease_until) from lanes where lease_until >= p_from),
               (select min(lease_until) from messages where lease_until >= p_from),
               (select min(lease_until) from bundles where lease_until >= p_from),
               (select min(ttl_at) from messages where ttl_at >= p_from),
               (select min(hint_until) from lanes where hint_until >= p_from),
               (select min(ready_since + hint_grace) from lanes
                 where hint_owner is not null and turn is not null
                   and ready_since + hint_grace > now_ms()));
end $$;

-- Applies up to p_max things that are due since p_from. Returns until when all is done, or null if
-- something is left. Of several processes one does it at a time, and rows that others hold are left
-- for later.
create function catch_up(p_from bigint, p_max int, p_kept int) returns bigint language plpgsql as $$
declare
  v_now bigint := now_ms();
  v_lanes bigint[] := '{}';     -- held by others
  v_messages bigint[] := '{}';
  v_bundles bigint[] := '{}';
  e record;
  l lanes;
  m messages;
  b bundles;
  v_turn bigint;
begin
  if not due_now(p_from, v_now) then return v_now; end if;
  -- Somebody else is at it, who may have less to do: this is no reason to look at it again at once.
  if not pg_try_advisory_xact_lock(hashtextextended('strand due ' || current_schema(), 0)) then
    return p_from;
  end if;
  for i in 1 .. p_max loop
    select * into e from (
      (select wakes_at as at, 0 as kind, id as number, lane, queue, id from messages
        where wakes_at between p_from and v_now and id <> all (v_messages)
          and (lane is null or lane <> all (v_lanes)) order by wakes_at, id limit 1)
      union all
      (select hint_until, 1, id, id, queue, null from lanes
        where hint_until between p_from and v_now and id <> all (v_lanes) order by hint_until, id limit 1)
      union all
      (select lease_until, 2, epoch, id, queue, null from lanes
        where lease_until between p_from and v_now and id <> all (v_lanes) order by lease_until, epoch limit 1)
      union all
      (select lease_until, 2, epoch, null, queue, id from messages
        where lease_until between p_from and v_now and id <> all (v_messages)
        order by lease_until, epoch limit 1)
      union all
      (select lease_until, 2, number << 16, null, queue, null from bundles
        where lease_until between p_from and v_now and number <> all (v_bundles)
        order by lease_until, number limit 1)
      union all
      (select ttl_at, 3, id, lane, queue, id from messages
        where ttl_at between p_from and v_now and id <> all (v_messages)
          and (lane is null or lane <> all (v_lanes)) order by ttl_at, id limit 1)
    ) due order by at, kind, number limit 1;
    if e.at is null then
      return case when cardinality(v_lanes || v_messages || v_bundles) = 0 then v_now end;
    end if;

    -- The leases of a bundle end one by one.
    if e.lane is null and e.id is null then
      select * into b from bundles where number = e.number >> 16 for update skip locked;
      if b.number is null then
        v_bundles := v_bundles || (e.number >> 16);
      elsif b.lease_until = e.at then
        perform open_bundle(b);
      end if;
      continue;
    end if;
    v_turn := null;
    if e.kind = 3 and e.lane is null then
      select * into m from messages where queue = e.queue and id = e.id;
      v_turn := m.turn;
      if m.turn is not null then
        perform 1 from ready where queue = m.queue and priority = m.priority and turn = m.turn
           for update skip locked;
        if not found then
          v_messages := v_messages || e.id;
          continue;
        end if;
      end if;
    end if;

    l := null;
    m := null;
    if e.lane is not null then
      select * into l from lanes where id = e.lane for update skip locked;
      if l.id is null then
        v_lanes := v_lanes || e.lane;
        continue;
      end if;
    end if;
    if e.id is not null then
      select * into m from messages where queue = e.queue and id = e.id for update skip locked;
      if m.id is null then
        v_messages := v_messages || e.id;
        continue;
      end if;
    end if;
    -- It may have changed while this looked.
    case e.kind
      when 0 then
        continue when m.wakes_at is distinct from e.at;
        perform wake_message(l, m, e.at);
      when 1 then
        continue when l.hint_until is distinct from e.at;
        l.hint_owner := null;
        l.hint_until := null;
        l.hint_grace := null;
        perform save_lane(l, e.at);
      when 2 then
        continue when coalesce(l.lease_until, m.lease_until) is distinct from e.at
                   or coalesce(l.epoch, m.epoch) is distinct from e.number;
        perform expire_lease(l, m, e.at, p_kept);
      else
        continue when m.ttl_at is distinct from e.at or m.turn is distinct from v_turn;
        l := end_expired(l, m, e.at);
        if m.lane is not null then perform save_lane(l, e.at); end if;
    end case;
  end loop;
  return null;
end $$;

create function wake_message(l lanes, m messages, p_now bigint) returns void language plpgsql as $$
begin
  if m.lane is not null then
    perform save_lane(wake_in_lane(l, m), p_now);
    return;
  end if;
  if m.park_reason is null then m.turn := line_up(m, p_now); end if;
  update messages set wakes_at = null, not_before = null, blocks = false, turn = m.turn
   where queue = m.queue and id = m.id;
end $$;

-- The lane is not saved.
create function wake_in_lane(l lanes, m messages) returns lanes language plpgsql as $$
begin
  l.waiting := l.waiting - 1;
  if m.not_before is not null then l.backoff := l.backoff - 1; end if;
  l := count_woken(l, m.priority, 1);
  if l.epoch is not null then perform tell_lease(l.epoch); end if;
  update messages set wakes_at = null, not_before = null, blocks = false
   where queue = m.queue and id = m.id;
  if m.blocks then l := find_barrier(l); end if;
  return l;
end $$;

-- Applies what is due to the messages of a lane, which is locked. Whoever serves it asks for this
-- first: of several processes one catches up, and while that one is not done, a message that is due
-- must not be passed by those behind it, nor one be handed out that has expired.
create function catch_up_lane(l lanes, p_now bigint) returns lanes language plpgsql as $$
declare
  m messages;
  v_waiting int := l.waiting;
  v_live bigint := l.live;
begin
  if v_waiting > 0 then
    for m in select * from messages t where t.lane = l.id and t.wakes_at <= p_now
              order by t.wakes_at, t.id loop
      l := wake_in_lane(l, m);
    end loop;
  end if;
  if exists (select 1 from messages where ttl_at <= p_now) then
    for m in select * from messages t where t.lane = l.id and t.ttl_at <= p_now
              order by t.ttl_at, t.id loop
      l := end_expired(l, m, m.ttl_at);
    end loop;
  end if;
  if l.waiting < v_waiting or l.live < v_live then
    if l.turn is not null then l.priority := coalesce(best_priority(l), l.priority); end if;
    perform store_lane(l);
  end if;
  return l;
end $$;

-- The oldest message is charged: it is the one that the holder was working on, most likely. The
-- next lease brings one message only, so that a message that kills its holders is found out alone.
create function expire_lease(l lanes, m messages, p_now bigint, p_kept int) returns void
language plpgsql as $$
declare
  q queues;
  f record;
  v_park bytea;
begin
  if l.id is null then
    select * into q from queues where id = m.queue;
    perform fail_message(null, m, q, 'lease expired', null, true, p_now, p_kept);
    perform tell_lease(m.epoch);
    return;
  end if;
  select * into q from queues where id = l.queue;
  select * into m from messages t where t.lane = l.id and t.epoch = l.epoch
   order by t.due, t.id limit 1;
  if m.id is not null then
    l.isolate_next := true;
    f := fail_message(l, m, q, 'lease expired', null, true, p_now, p_kept);
    l := f.lane;
    v_park := f.park;
  end if;
  l := take_lease_away(l, p_now);
  if v_park is not null then l.park_reason := v_park; end if;
  perform save_lane(l, p_now);
end $$;

-- Two who shared a body and went at the same time have left it (see release_body): of many bodies a
-- stretch is looked at each time, from anywhere, and from the start again where they end.
create function release_left_bodies() returns void language plpgsql as $$
declare
  v_from bigint := (select min(id) + random() * (max(id) - min(id)) from bodies);
begin
  perform release_body(id) from (
    (select id from bodies where id >= v_from order by id limit 500)
    union all
    (select id from bodies where id < v_from order by id limit 500)
    limit 500) b;
end $$;

-- Forgets what nobody asks for any more, and adds up counters. Of many processes one does it.
-- Returns what live messages take of the store, by estimate.
create function upkeep() returns bigint language plpgsql as $$
declare
  v_now bigint := now_ms();
begin
  if not pg_try_advisory_xact_lock(hashtextextended('strand upkeep ' || current_schema(), 0)) then
    return (select coalesce(sum(bytes), 0) from tallies);
  end if;
  delete from dedup where ctid in (select ctid from dedup where ends_at <= v_now limit 10000);
  delete from receipts where ctid in (select ctid from receipts where forget_at <= v_now limit 10000);
  delete from clients where ctid in (select ctid from clients where forget_at <= v_now limit 10000);
  delete from requests r where r.ctid in (select ctid from requests where forget_at <= v_now limit 10000)
     and not any_current(r.places, r.epochs);
  perform trim_retained(v_now);
  perform release_left_bodies();
  with gone as (delete from tallies
                 where ctid in (select ctid from tallies limit 100000)
                returning *)
  insert into tallies
  select queue, sum(accepted), sum(acked), sum(expired), sum(dropped), sum(moved), sum(purged),
         sum(dead), sum(bytes)
    from gone group by queue;
  return (select coalesce(sum(bytes), 0) from tallies);
end $$;

create function trim_retained(p_now bigint) returns void language plpgsql as $$
declare
  v_ids bigint[];
begin
  with gone as (delete from retained r using topics t
                 where t.name = r.topic and r.at + t.retain <= p_now returning r.id)
  select array_agg(id) into v_ids from gone;
  perform release_body(b) from unnest(v_ids) b;
end $$;

-- Says, by a lock that the session holds as long as it lives, that somebody has the store open.
-- Whoever finds nobody else has reopened it: each lease is good for another 10 s, once.
create function take_part() returns void language plpgsql as $$
declare
  v_lock bigint := hashtextextended('strand open ' || current_schema(), 0);
  v_until bigint := now_ms() + 10000;
begin
  if pg_try_advisory_lock(v_lock) then
    update lanes set lease_until = greatest(lease_until, v_until), graced = true
     where lease_until is not null and not graced;
    update messages set lease_until = greatest(lease_until, v_until), graced = true
     where lease_until is not null and not graced;
    update bundles set lease_until = greatest(lease_until, v_until), graced = true where not graced;
    perform pg_advisory_lock_shared(v_lock);
    perform pg_advisory_unlock(v_lock);
  else
    perform pg_advisory_lock_shared(v_lock);
  end if;
end $$;
