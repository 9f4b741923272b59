-- What becomes of leased messages, and cancelling.

-- Remembers, for this transaction, that a message ended in a way that sends behind it in the
-- transaction may not count on: its name is not free for them, nor its room in a full queue.
create function note_unforeseen(m messages) returns void language plpgsql as $$
begin
  if (select max_length from queues where id = m.queue) > 0 then
    perform add_unforeseen(m.queue, 1);
  end if;
  if m.name is not null then
    perform set_config(noted('freed_' || md5(m.name), m.queue), 'late', true);
  end if;
end $$;

-- Settles leases, in order. The outcomes are parallel arrays of their own; p_of says to which
-- settle each belongs. Kinds: 0 ack, 1 retry, 2 dead, 3 release. Then: 0 end, 1 keep, 2 park.
-- Arrays of what none of them has, or only empty ones, are null.
create function settle(p_places bigint[], p_epochs bigint[], p_thens int[], p_park_reasons bytea[],
                       p_labels text[], p_hint_owners text[], p_hint_valid bigint[],
                       p_hint_grace bigint[], p_of int[], p_ids bigint[], p_kinds int[],
                       p_delays bigint[], p_reasons bytea[], p_kept int)
returns void language plpgsql as $$
declare
  v_now bigint := now_ms();
  v_from int := 1;
  v_to int;
  v_done boolean[];
begin
  perform share_queue(q) from (select distinct queue_of(u) as q from unnest(p_places) u order by 1) w;
  if ack_bundles(p_places, p_epochs, p_labels, p_hint_owners, p_of, p_ids, p_kinds, v_now) then
    return;
  end if;
  perform lock_ids(array(select number_of(u) from unnest(p_places) u where not is_message(u)));
  perform open_bundles(p_epochs);
  perform check_settled_once(p_places, p_epochs, v_now);
  if exists (select 1 from unnest(p_places, p_labels, p_hint_owners) as u (place, label, owner)
              where is_message(u.place) and (u.label is not null or u.owner is not null)) then
    v_done := array_fill(false, array[cardinality(p_places)]);  -- refused below
  else
    v_done := ack_messages(p_places, p_epochs, p_of, p_ids, p_kinds, v_now);
    if true = all (v_done) then return; end if;
  end if;
  if ack_lanes(p_places, p_epochs, p_thens, p_labels, p_hint_owners, p_of, p_ids, p_kinds, v_done,
               v_now) then
    return;
  end if;
  for i in 1 .. cardinality(p_places) loop
    v_to := v_from;
    while p_of[v_to] = i loop v_to := v_to + 1; end loop;
    if v_done[i] then
      null;
    elsif is_message(p_places[i]) then
      perform settle_message(p_places[i], p_epochs[i], p_thens[i], p_park_reasons[i],
                             p_labels[i] is not null or p_hint_owners[i] is not null, p_ids[v_from:v_to - 1], p_kinds[v_from:v_to - 1],
                             p_delays[v_from:v_to - 1], p_reasons[v_from:v_to - 1], v_now, p_kept);
    else
      perform settle_lane(p_places[i], p_epochs[i], p_thens[i], p_park_reasons[i], p_labels[i],
                          p_hint_owners[i], p_hint_valid[i], p_hint_grace[i],
                          p_ids[v_from:v_to - 1], p_kinds[v_from:v_to - 1],
                          p_delays[v_from:v_to - 1], p_reasons[v_from:v_to - 1], v_now, p_kept);
    end if;
    v_from := v_to;
  end loop;
end $$;

create function check_settled_once(p_places bigint[], p_epochs bigint[], p_now bigint)
returns void language plpgsql as $$
declare
  r record;
begin
  if cardinality(p_epochs) < 2 then return; end if;
  for r in select place, epoch from unnest(p_places, p_epochs) as u (place, epoch)
            group by place, epoch having count(*) > 1 loop
    if is_message(r.place) then
      perform held_message(r.place, r.epoch, p_now);
    else
      perform held_lane(r.place, r.epoch, p_now);
    end if;
    perform refuse('STARG', format('the transaction settles the lease with epoch %s twice; put all '
                                   'outcomes into one settle', r.epoch));
  end loop;
end $$;

-- When all leases are of unkeyed messages in bundles, each different and just acked, their messages
-- go without any other row being touched. Returns whether it was so.
create function ack_bundles(p_places bigint[], p_epochs bigint[], p_labels text[],
                            p_hint_owners text[], p_of int[], p_ids bigint[], p_kinds int[],
                            p_now bigint) returns boolean
language plpgsql as $$
declare
  v_numbers bigint[];
  v_bundles bundles[] := '{}';
  b bundles;
  v_gone bigint[] := '{}';
  v_ended bigint[];
  v_bodies bigint[];
begin
  if p_labels is not null or p_hint_owners is not null or cardinality(p_ids) <> cardinality(p_places)
     or 0 <> any (p_kinds)
     or exists (select 1 from unnest(p_places, p_of, p_ids) with ordinality as u (place, of, id, n)
                 where u.of <> u.n or not is_message(u.place) or number_of(u.place) <> u.id)
     or (cardinality(p_ids) > 1
         and (select count(distinct (u.place, u.epoch)) from unnest(p_places, p_epochs) as u (place, epoch))
             < cardinality(p_ids)) then
    return false;
  end if;
  v_numbers := array(select distinct e >> 16 from unnest(p_epochs) e order by 1);
  for b in select * from bundles where number = any (v_numbers) order by number for update loop
    v_bundles := v_bundles || b;
  end loop;
  if cardinality(v_bundles) < cardinality(v_numbers) then return false; end if;
  foreach b in array v_bundles loop
    continue when b.lease_until <= p_now;
    with gone as (
      delete from messages m
       using unnest(p_places, p_epochs, p_ids) as u (place, epoch, id)
       where u.epoch >> 16 = b.number and queue_of(u.place) = b.queue
         and b.ids[(u.epoch & 65535) + 1] = u.id and m.queue = b.queue and m.id = u.id
      returning m.id, m.bytes, m.body_at),
    counted as (
      insert into tallies (queue, acked, bytes)
      select b.queue, count(*), -sum(g.bytes + 144) from gone g having count(*) > 0)
    select coalesce(array_agg(g.id), '{}'),
           array_agg(g.body_at) filter (where g.body_at is not null)
      into v_ended, v_bodies from gone g;
    if v_bodies is not null then perform release_body(u) from unnest(v_bodies) u; end if;
    v_gone := v_gone || v_ended;
    b.held := b.held - cardinality(v_ended);
    if b.held = 0 then
      delete from bundles where number = b.number;
    else
      update bundles set held = b.held where number = b.number;
      -- Who acks one by one may do so from many threads, which need not wait for each other.
      if cardinality(v_ended) * 16 < b.held then perform open_bundle(b); end if;
    end if;
  end loop;
  if cardinality(v_gone) < cardinality(p_ids) then
    perform refuse_lost(u.epoch) from unnest(p_epochs, p_ids) with ordinality as u (epoch, id, n)
      where u.id <> all (v_gone) order by u.n limit 1;
  end if;
  return true;
end $$;

-- Unkeyed messages that are just acked, which is most of them, go all at once. Returns which
-- settles are done with that.
create function ack_messages(p_places bigint[], p_epochs bigint[], p_of int[], p_ids bigint[],
                             p_kinds int[], p_now bigint) returns boolean[]
language plpgsql as $$
declare
  v_count int := cardinality(p_places);
  v_done boolean[] := array_fill(false, array[v_count]);
  v_plain int;
  v_deleted int;
  r record;
begin
  select count(*) into v_plain
    from unnest(p_of, p_ids, p_kinds) as o (of, id, kind)
   where is_message(p_places[o.of]) and o.kind = 0 and o.id = number_of(p_places[o.of]);
  -- A message with more than one outcome: something is wrong, and is found out one by one.
  if v_plain = 0 or (cardinality(p_of) > v_count and exists (
       select 1 from unnest(p_of) of where is_message(p_places[of]) group by of having count(*) > 1)) then
    return v_done;
  end if;
  v_deleted := 0;
  for r in
    with gone as (
      delete from messages m
       using unnest(p_of, p_ids, p_kinds) as o (of, id, kind)
       where o.kind = 0 and is_message(p_places[o.of]) and o.id = number_of(p_places[o.of])
         and m.queue = queue_of(p_places[o.of]) and m.id = o.id and m.epoch = p_epochs[o.of]
         and m.lease_until > p_now
      returning o.of, m.queue, m.body_at, m.bytes)
    select queue, count(*) as count, sum(bytes + 144) as bytes, array_agg(of) as settles,
           array_agg(body_at) filter (where body_at is not null) as bodies
      from gone group by queue
  loop
    v_deleted := v_deleted + r.count;
    perform tally(r.queue, 'acked', r.count, -r.bytes);
    for i in 1 .. cardinality(r.settles) loop v_done[r.settles[i]] := true; end loop;
    if r.bodies is not null then perform release_body(b) from unnest(r.bodies) b; end if;
  end loop;
  if v_deleted < v_plain then
    perform refuse_lost(p_epochs[i]) from generate_series(1, v_count) i
      where not v_done[i] and is_message(p_places[i]) and exists (
        select 1 from unnest(p_of, p_ids, p_kinds) as o (of, id, kind)
         where o.of = i and o.kind = 0 and o.id = number_of(p_places[i])) limit 1;
  end if;
  return v_done;
end $$;

-- When all settles that are left are of lanes, and end their leases with acks of all that these
-- carry, as they mostly do, all goes by sets. Returns whether it was so; p_done are the settles that
-- are not left.
create function ack_lanes(p_places bigint[], p_epochs bigint[], p_thens int[], p_labels text[],
                          p_hint_owners text[], p_of int[], p_ids bigint[], p_kinds int[],
                          p_done boolean[], p_now bigint) returns boolean
language plpgsql as $$
declare
  v_settles int[];
  v_lanes bigint[];
  v_counts int[];
  v_gone_of int[];
  v_gone bigint[];
  v_bodies bigint[];
  r record;
begin
  select array_agg(c.of), array_agg(l.id), array_agg(c.count) into v_settles, v_lanes, v_counts
    from (select o.of, count(*)::int as count
            from unnest(p_of, p_kinds) as o (of, kind)
           where not is_message(p_places[o.of])
           group by o.of having bool_and(o.kind = 0) order by o.of) c
    join lanes l on l.id = number_of(p_places[c.of])
   where p_thens[c.of] = 0 and p_labels[c.of] is null and p_hint_owners[c.of] is null
     and l.epoch = p_epochs[c.of] and l.lease_until > p_now and l.carried = c.count
     and l.barrier_due is null;
  if v_settles is null
     or cardinality(v_settles) + cardinality(array_positions(p_done, true)) < cardinality(p_places) then
    return false;
  end if;

  with gone as (
    delete from messages m
     using unnest(p_of, p_ids) as o (of, id)
     where m.queue = queue_of(p_places[o.of]) and m.id = o.id
       and m.lane = number_of(p_places[o.of]) and m.epoch = p_epochs[o.of]
    returning o.of, m.queue, m.id, m.bytes, m.body_at),
  counted as (
    insert into tallies (queue, acked, bytes)
    select g.queue, count(*), -sum(g.bytes + 144) from gone g group by g.queue)
  select array_agg(g.of), array_agg(g.id), array_agg(g.body_at) filter (where g.body_at is not null)
    into v_gone_of, v_gone, v_bodies from gone g;
  -- All that the leases carried is gone, unless a message has two outcomes or was never carried.
  if coalesce(cardinality(v_gone), 0) < (select sum(u) from unnest(v_counts) u) then
    for r in select o.of, array_agg(o.id) as ids, min(o.id) filter (where g.id is null) as wrong
               from unnest(p_of, p_ids) as o (of, id)
               left join unnest(v_gone_of, v_gone) as g (of, id) on g.of = o.of and g.id = o.id
              where o.of = any (v_settles) group by o.of order by o.of loop
      perform check_distinct(r.ids);
      if r.wrong is not null then perform refuse_not_leased(r.wrong, p_epochs[r.of]); end if;
    end loop;
  end if;
  if v_bodies is not null then perform release_body(b) from unnest(v_bodies) b; end if;

  delete from lanes l using unnest(v_lanes, v_counts) as u (id, count)
   where l.id = u.id and l.live = u.count and l.hint_owner is null;
  -- Those that have more become ready, in the order of the settles.
  for r in
    update lanes l set live = l.live - u.count, carried = 0, epoch = null, lease_until = null,
                       isolated = false, request_client = null, request_number = null,
                       isolate_next = l.isolate_next and l.live > u.count,
                       priority = coalesce(u.best, l.priority), turn = u.turn,
                       ready_since = case when u.best is not null then p_now end
      from (select w.id, w.count, w.best,
                   case when w.best is not null then nextval('numbers') end as turn
              from (select c.id, c.count, best_priority(t) as best
                      from unnest(v_lanes, v_counts) with ordinality as c (id, count, n)
                      join lanes t on t.id = c.id order by c.n offset 0) w offset 0) u
     where l.id = u.id returning l.queue, l.turn
  loop
    if r.turn is not null then perform tell_queue(r.queue); end if;
  end loop;
  return true;
end $$;

create function check_distinct(p_ids bigint[]) returns void language plpgsql as $$
declare
  v_id bigint;
begin
  if cardinality(p_ids) < 2 then return; end if;
  select u into v_id from unnest(p_ids) u group by u having count(*) > 1 limit 1;
  if v_id is not null then
    perform refuse('STARG', format('message %s has two outcomes in one settle', v_id));
  end if;
end $$;

create function refuse_not_leased(p_id bigint, p_epoch bigint) returns void language plpgsql as $$
begin
  perform refuse('STMNL', format('message %s is not carried by the lease with epoch %s; it was '
                                 'settled before, or never part of it', p_id, p_epoch));
end $$;

create function settle_message(p_place bigint, p_epoch bigint, p_then int, p_park_reason bytea,
                               p_of_lane boolean, p_ids bigint[], p_kinds int[], p_delays bigint[],
                               p_reasons bytea[], p_now bigint, p_kept int)
returns void language plpgsql as $$
declare
  m messages;
  q queues;
begin
  m := held_message(p_place, p_epoch, p_now);
  if p_of_lane then
    perform refuse('STARG', 'labels and owner hints belong to lanes; this lease is of an unkeyed '
                            'message');
  end if;
  perform refuse_not_leased(u, p_epoch) from unnest(p_ids) u where u <> m.id;
  perform check_distinct(p_ids);
  select * into q from queues where id = m.queue;
  if p_then = 2 then m.park_reason := coalesce(p_park_reason, ''); end if;
  if cardinality(p_ids) = 0 then
    if p_then = 1 then return; end if;
    perform give_back_noted(m, p_now);
  elsif p_kinds[1] = 0 then
    perform end_message(null, m, 'acked', null, p_now);
  elsif p_kinds[1] = 1 then
    perform fail_message(null, m, q, coalesce(p_reasons[1], ''), p_delays[1], false, p_now, p_kept);
    if not exists (select 1 from messages t where t.queue = m.queue and t.id = m.id) then
      perform note_unforeseen(m);
    end if;
  elsif p_kinds[1] = 2 then
    m := add_failure(m, coalesce(p_reasons[1], ''), p_now, p_kept);
    perform end_message(null, m, 'dead', p_reasons[1], p_now);
  else
    perform give_back_noted(m, p_now);
  end if;
end $$;

create function give_back_noted(m messages, p_now bigint) returns void language plpgsql as $$
begin
  perform give_back(null, m, p_now);
  if m.expires_at <= p_now then perform note_unforeseen(m); end if;
end $$;

create function settle_lane(p_place bigint, p_epoch bigint, p_then int, p_park_reason bytea,
                            p_label text, p_hint_owner text, p_hint_valid bigint,
                            p_hint_grace bigint, p_ids bigint[], p_kinds int[], p_delays bigint[],
                            p_reasons bytea[], p_now bigint, p_kept int)
returns void language plpgsql as $$
declare
  l lanes;
  m messages;
  q queues;
  r record;
  f record;
  v_acked int := 0;
  v_bytes bigint;
  v_bodies bigint[];
  v_park bytea;
begin
  l := held_lane(p_place, p_epoch, p_now);
  select * into q from queues where id = l.queue;
  if cardinality(p_ids) > 0 then
    perform check_distinct(p_ids);
    -- All acks at once: that is what nearly every settle is.
    if 0 = any (p_kinds) then
      with gone as (
        delete from messages t
         using unnest(p_ids, p_kinds) as o (id, kind)
         where o.kind = 0 and t.queue = l.queue and t.id = o.id and t.lane = l.id
           and t.epoch = l.epoch
        returning t.body_at, t.bytes)
      select count(*), sum(bytes + 144), array_agg(body_at) filter (where body_at is not null)
        into v_acked, v_bytes, v_bodies from gone;
      if v_acked < (select count(*) from unnest(p_kinds) k where k = 0) then
        perform refuse_not_leased(o.id, p_epoch) from unnest(p_ids, p_kinds) as o (id, kind)
          where o.kind = 0 limit 1;
      end if;
      l.live := l.live - v_acked;
      l.carried := l.carried - v_acked;
      perform tally(l.queue, 'acked', v_acked, -v_bytes);
      if v_bodies is not null then perform release_body(b) from unnest(v_bodies) b; end if;
    end if;
    if v_acked < cardinality(p_ids) then
      for r in select o.id, o.kind, o.delay, coalesce(o.why, '') as reason
                 from unnest(p_ids, p_kinds, p_delays, p_reasons) with ordinality
                      as o (id, kind, delay, why, n) where o.kind <> 0 order by o.n loop
        select * into m from messages t
         where t.queue = l.queue and t.id = r.id and t.lane = l.id and t.epoch = p_epoch;
        if m.id is null then perform refuse_not_leased(r.id, p_epoch); end if;
        case r.kind
          when 1 then
            f := fail_message(l, m, q, r.reason, r.delay, false, p_now, p_kept);
            l := f.lane;
            v_park := coalesce(v_park, f.park);
            if not exists (select 1 from messages t where t.queue = m.queue and t.id = m.id) then
              perform note_unforeseen(m);
            end if;
          when 2 then
            m := add_failure(m, r.reason, p_now, p_kept);
            l := end_message(l, m, 'dead', r.reason, p_now);
          else
            l := give_back(l, m, p_now);
            if m.expires_at <= p_now then perform note_unforeseen(m); end if;
        end case;
      end loop;
    end if;
  end if;
  if p_label is not null and p_label <> l.label then l := set_label(l, p_label); end if;
  if p_hint_owner is not null then
    l.hint_owner := null;
    l.hint_until := null;
    l.hint_grace := null;
    if p_hint_valid > 0 then
      l.hint_owner := p_hint_owner;
      l.hint_until := p_now + p_hint_valid;
      l.hint_grace := p_hint_grace;
    end if;
  end if;
  if p_then = 2 then v_park := coalesce(v_park, p_park_reason, ''); end if;
  if p_then = 1 and v_park is null then
    if l.live = 0 then l.isolate_next := false; end if;
    perform store_lane(l);
    return;
  end if;
  l := end_lease(l, p_now);
  l.park_reason := v_park;
  perform save_lane(l, p_now);
end $$;

create function set_label(l lanes, p_label text) returns lanes language plpgsql as $$
begin
  l.label := p_label;
  update instances set label = p_label
   where queue = l.queue and key = l.key and outcome is null;
  return l;
end $$;

-- The live message of that name, with all that says where it stands: its lane, or its turn; a lease
-- in a bundle is written into its row.
create function lock_named(p_queue int, p_name bytea) returns messages language plpgsql as $$
declare
  v_seen messages;
  m messages;
begin
  loop
    -- First the lane or the turn, then the message: as everybody does.
    select * into v_seen from messages where queue = p_queue and name = p_name;
    if v_seen.id is null then return null; end if;
    if v_seen.lane is not null then perform lock_ids(array[v_seen.lane]); end if;
    if v_seen.turn is not null then
      perform 1 from ready where queue = p_queue and priority = v_seen.priority
          and turn = v_seen.turn for update;
      if not found then
        perform open_bundles(array[b.number << 16]) from bundles b
          where b.queue = p_queue and v_seen.id = any (b.ids);
        -- Nobody has it: it is on its way from one to the other, or has just ended.
        select * into m from messages where queue = p_queue and name = p_name;
        continue when m.turn is not null;
      end if;
    end if;
    select * into m from messages where queue = p_queue and name = p_name for update;
    exit when m.id is null
           or (m.id = v_seen.id and (m.turn is null or m.turn = v_seen.turn));
  end loop;
  return m;
end $$;

-- Drops messages by their names, wherever they stand; says which there were. Those that are quiet
-- (1) send no notice.
create function cancel(p_queues text[], p_names bytea[], p_quiet int[]) returns boolean[]
language plpgsql as $$
declare
  v_now bigint := now_ms();
  v_result boolean[] := '{}';
  m messages;
  l lanes;
  v_queue int;
begin
  for i in 1 .. cardinality(p_queues) loop
    select id into v_queue from queues where name = p_queues[i];
    m := null;
    if v_queue is not null then
      perform share_queue(v_queue);
      m := lock_named(v_queue, p_names[i]);
    end if;
    v_result := v_result || (m.id is not null);
    continue when m.id is null;
    l := null;
    if m.lane is not null then select * into l from lanes where id = m.lane; end if;
    if p_quiet[i] = 1 then m.notice_queue := null; end if;
    l := end_message(l, m, 'cancelled', null, v_now);
    if m.lane is not null then
      if m.epoch is not null then l := take_lease_away(l, v_now); end if;
      perform save_lane(l, v_now);
    elsif m.epoch is not null then
      perform tell_lease(m.epoch);
    end if;
  end loop;
  update receipts set cancelled = v_result
   where client = transaction_client() and number = transaction_number();
  return v_result;
end $$;
