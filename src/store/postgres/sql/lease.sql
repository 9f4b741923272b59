-- Leases: granted, pulled for, renewed, ended.

-- A place names what a token leases: the sign says whether it is an unkeyed message, then come 17
-- bits of queue, then 46 bits of the message's or lane's number.
create function lane_place(p_queue int, p_lane bigint) returns bigint language sql immutable as $$
  select (p_queue::bigint << 46) | p_lane
$$;
create function message_place(p_queue int, p_id bigint) returns bigint language sql immutable as $$
  select (-9223372036854775808) | (p_queue::bigint << 46) | p_id
$$;
create function is_message(p_place bigint) returns boolean language sql immutable as $$
  select p_place < 0
$$;
create function queue_of(p_place bigint) returns int language sql immutable as $$
  select ((p_place >> 46) & 131071)::int
$$;
create function number_of(p_place bigint) returns bigint language sql immutable as $$
  select p_place & 70368744177663
$$;

-- A message as its holder gets it; the first columns are those of its lease.
create type granted as (
  n           int,
  epoch       bigint,
  place       bigint,
  key         bytea,
  label       text,
  lease_until bigint,
  cursor      bigint,
  isolated    boolean,
  more        boolean,
  turn        bigint,
  lane_priority int,
  id          bigint,
  body        bytea,
  headers     bytea,
  priority    int,
  deliveries  int,
  attempts    int,
  enqueued_at bigint,
  due         bigint,
  expires_at  bigint,
  name        bytea,
  topic       text,
  low         bigint,  -- of a claim: every transaction below had ended before it,
  high        bigint   -- and those whose turns it could have missed are below this
);

-- Whether the lane has visible messages that its lease does not carry.
create function has_more(l lanes) returns boolean language sql stable as $$
  select best_priority(l) is not null
$$;

-- Adds visible messages to a lease while they fit. What is left of the limits comes back.
create function carry_visible(l lanes, p_pull bigint, p_first_fits boolean, p_messages int,
                              p_bytes bigint, out lane lanes, out messages_left int,
                              out bytes_left bigint, out count int)
language plpgsql as $$
declare
  r record;
  v_ids bigint[] := '{}';
begin
  lane := l;
  messages_left := p_messages;
  bytes_left := p_bytes;
  count := 0;
  for r in select m.id, m.bytes, m.priority from messages m
            where m.lane = l.id and m.wakes_at is null and m.epoch is null
              and (l.barrier_due is null or (m.due, m.id) < (l.barrier_due, l.barrier_id))
            order by m.due, m.id limit p_messages loop
    exit when r.bytes > bytes_left and not (p_first_fits and count = 0);
    v_ids := v_ids || r.id;
    bytes_left := greatest(0, bytes_left - r.bytes);
    messages_left := messages_left - 1;
    count := count + 1;
    case r.priority
      when 0 then lane.woken_0 := lane.woken_0 - 1;
      when 1 then lane.woken_1 := lane.woken_1 - 1;
      when 2 then lane.woken_2 := lane.woken_2 - 1;
      else lane.woken_3 := lane.woken_3 - 1;
    end case;
  end loop;
  if count > 0 then
    update messages m set epoch = lane.epoch, pulled = p_pull, deliveries = m.deliveries + 1,
                          ttl_at = null
     where m.queue = l.queue and m.id = any (v_ids);
    lane.carried := lane.carried + count;
  end if;
end $$;

-- Writes the leases of a bundle, which is locked, into the rows of their messages.
create function open_bundle(b bundles) returns void language plpgsql as $$
begin
  update messages m set epoch = (b.number << 16) + u.n - 1, lease_until = b.lease_until,
                        graced = b.graced, deliveries = m.deliveries + 1, turn = null, pulled = 0,
                        request_client = b.request_client, request_number = b.request_number
    from unnest(b.ids) with ordinality as u (id, n)
   where m.queue = b.queue and m.id = u.id;
  delete from bundles where number = b.number;
end $$;

-- Opens those to which these epochs belong, if they belong to any.
create function open_bundles(p_epochs bigint[]) returns void language plpgsql as $$
declare
  b bundles;
begin
  for b in select t.* from bundles t
            where t.number = any (array(select distinct e >> 16 from unnest(p_epochs) e))
            order by t.number for update loop
    perform open_bundle(b);
  end loop;
end $$;
create function open_bundles_of(p_queue int) returns void language plpgsql as $$
declare
  b bundles;
begin
  for b in select * from bundles where queue = p_queue order by number for update loop
    perform open_bundle(b);
  end loop;
end $$;

create function begin_lease(l lanes, p_until bigint, p_client bigint, p_number bigint)
returns lanes language plpgsql as $$
begin
  l.epoch := nextval('epochs') << 16;
  l.lease_until := p_until;
  l.cursor := 1;
  l.isolated := false;
  l.graced := false;
  l.request_client := p_client;
  l.request_number := p_number;
  l.turn := null;
  l.ready_since := null;
  return l;
end $$;

-- What the tokens hold, message by message, for those that are current.
create function look_at_leases(p_places bigint[], p_epochs bigint[]) returns setof granted
language sql stable as $$
  select h.n::int, h.epoch, h.place, h.key, h.label, h.lease_until, h.cursor, h.isolated, h.more,
         null::bigint, h.priority, m.id, coalesce(m.body, b.body, ''), m.headers, m.priority,
         m.deliveries, m.attempts, m.enqueued_at, m.due, m.expires_at, m.name, m.topic,
         null::bigint, null::bigint
    from (select g.n, g.place, l.id, l.epoch, l.key, l.label, l.lease_until, l.cursor, l.isolated,
                 l.priority, has_more(l) as more
            from unnest(p_places, p_epochs) with ordinality as g (place, epoch, n)
            join lanes l on l.id = number_of(g.place) and l.epoch = g.epoch
           where not is_message(g.place) offset 0) h
    left join messages m on m.lane = h.id and m.epoch = h.epoch
    left join bodies b on b.id = m.body_at
  union all
  select g.n::int, m.epoch, g.place, null, m.label, m.lease_until, 1, false, false, null::bigint,
         m.priority, m.id, coalesce(m.body, b.body, ''), m.headers, m.priority, m.deliveries,
         m.attempts, m.enqueued_at, m.due, m.expires_at, m.name, m.topic,
         null::bigint, null::bigint
    from unnest(p_places, p_epochs) with ordinality as g (place, epoch, n)
    join messages m on m.queue = queue_of(g.place) and m.id = number_of(g.place)
                   and m.epoch = g.epoch
    left join bodies b on b.id = m.body_at
   where is_message(g.place)
$$;

create function lease(p_queue text, p_labels text[], p_owner text, p_lanes int, p_messages int,
                      p_bytes bigint, p_lease bigint, p_key bytea, p_seize boolean,
                      p_client bigint, p_number bigint, p_granted bigint,
                      p_bound_priority int, p_bound_turn bigint, p_window bigint,
                      p_requests_max bigint)
returns setof granted language plpgsql as $$
declare
  v_now bigint := now_ms();
  q queues;
  r requests;
  e ready_entry;
  v_entries ready_entry[];
  c record;
  l lanes;
  v_until bigint;
  v_first boolean := true;
  v_messages int := p_messages;
  v_bytes bigint := p_bytes;
  v_places bigint[] := '{}';
  v_epochs bigint[] := '{}';
  v_turns bigint[] := '{}';
  v_ids bigint[] := '{}';        -- unkeyed
  v_id_epochs bigint[] := '{}';
  v_epoch bigint;
  v_low bigint := txid_snapshot_xmin(txid_current_snapshot());
  v_high bigint;
begin
  if p_client is not null then
    perform pg_advisory_xact_lock(hashtextextended(
      'strand request ' || current_schema() || ' ' || p_client || ' ' || p_number, 0));
    select * into r from requests where client = p_client and number = p_number;
    if found then perform open_bundles(r.epochs); end if;
    if r.client is not null and (r.forget_at > v_now or any_current(r.places, r.epochs)) then
      return query select * from look_at_leases(r.places, r.epochs);
      return;
    end if;
    if has_more_than('requests', 'forget_at', p_requests_max - 1) then
      perform refuse('STSFU', format('the store remembers %s request ids, its limit '
                                     '(request_ids_max); lease without one, or wait until older '
                                     'ones are forgotten', p_requests_max));
    end if;
  end if;
  q := known_queue(p_queue);
  perform share_queue(q.id);
  if q.paused and not p_seize then return; end if;
  v_until := v_now + coalesce(p_lease, q.lease);

  if p_key is not null then
    if p_seize then perform lock_lanes(array[q.id], array[p_key]); end if;
    select * into l from lanes where queue = q.id and key = p_key for update;
    if not p_seize and l.turn is not null then
      l := catch_up_lane(l, v_now);
      if best_priority(l) is null then
        perform save_lane(l, v_now);
        return;
      end if;
    end if;
    if not p_seize and (l.id is null or l.turn is null
         or (p_labels is not null and not l.label = any (p_labels))
         or not shows_itself(l, p_owner, v_now)) then
      return;
    end if;
    if p_seize then
      if l.epoch is not null then l := take_lease_away(l, v_now); end if;
      l.park_reason := null;
      if l.live = 0 then l.isolate_next := false; end if;
    end if;
    if p_seize then l := catch_up_lane(l, v_now); end if;
    l := begin_lease(l, v_until, p_client, p_number);
    if not p_seize and l.isolate_next then
      l.isolate_next := false;
      l.isolated := true;
      v_messages := 1;
    end if;
    c := carry_visible(l, 0, true, v_messages, v_bytes);
    perform store_lane(c.lane);
    v_places := array[lane_place(q.id, l.id)];
    v_epochs := array[l.epoch];
  else
    -- Most queues have lanes or unkeyed messages, not both, and one priority: then all goes by sets.
    if p_labels is null then
      select * into c from pick_plain(q.id, p_bound_priority, p_bound_turn, p_owner, v_now,
                                      least(p_lanes, p_messages, 65536), p_messages, p_bytes);
      if c.ids is not null then
        v_high := txid_snapshot_xmax(txid_current_snapshot());
        v_epoch := nextval('epochs') << 16;
        v_epochs := array(select v_epoch + n from generate_series(0, cardinality(c.ids) - 1) n);
        if c.are_lanes then
          v_places := array(select lane_place(q.id, u) from unnest(c.ids) u);
          update lanes t set epoch = u.epoch, lease_until = v_until, cursor = 1, isolated = false,
                             graced = false, request_client = p_client, request_number = p_number,
                             turn = null, ready_since = null,
                             carried = t.woken_0 + t.woken_1 + t.woken_2 + t.woken_3,
                             woken_0 = 0, woken_1 = 0, woken_2 = 0, woken_3 = 0
            from unnest(c.ids, v_epochs) as u (id, epoch) where t.id = u.id;
          return query
            with leased as (
              update messages m set epoch = u.epoch, pulled = 0, deliveries = m.deliveries + 1,
                                    ttl_at = null
                from unnest(c.ids, v_epochs, c.turns) with ordinality as u (lane, epoch, turn, n)
               where m.lane = u.lane and m.wakes_at is null and m.epoch is null
              returning u.n::int, u.turn, m.lane, m.epoch, m.id, m.priority, m.body, m.body_at,
                        m.headers, m.deliveries, m.attempts, m.enqueued_at, m.due, m.expires_at,
                        m.name, m.topic)
            select g.n, g.epoch, lane_place(q.id, g.lane), t.key, t.label, v_until, 1::bigint,
                   false, false, g.turn, t.priority, g.id, coalesce(g.body, b.body, ''), g.headers,
                   g.priority, g.deliveries, g.attempts, g.enqueued_at, g.due, g.expires_at,
                   g.name, g.topic, v_low, v_high
              from leased g join lanes t on t.id = g.lane left join bodies b on b.id = g.body_at;
        else
          v_places := array(select message_place(q.id, u) from unnest(c.ids) u);
          delete from ready t where t.ctid = any (c.entries);
          insert into bundles (number, queue, ids, held, lease_until, request_client,
                               request_number)
          values (v_epoch >> 16, q.id, c.ids, cardinality(c.ids), v_until, p_client, p_number);
          return query
            select u.n::int, u.epoch, message_place(q.id, m.id), null::bytea, m.label, v_until,
                   1::bigint, false, false, u.turn, m.priority, m.id,
                   coalesce(m.body, b.body, ''), m.headers, m.priority, m.deliveries + 1,
                   m.attempts, m.enqueued_at, m.due, m.expires_at, m.name, m.topic, v_low, v_high
              from unnest(c.ids, v_epochs, c.turns) with ordinality as u (id, epoch, turn, n)
              join messages m on m.queue = q.id and m.id = u.id
              left join bodies b on b.id = m.body_at;
        end if;
        if p_client is not null then
          perform remember_request(p_client, p_number, v_now + p_window, v_places, v_epochs);
        end if;
        return;
      end if;
    end if;
    v_entries := pick_ready(q.id, p_bound_priority, p_bound_turn, p_labels, p_owner, v_now,
                            least(p_lanes, p_messages), p_granted, q.starvation_after);
    v_high := txid_snapshot_xmax(txid_current_snapshot());
    foreach e in array v_entries loop
      exit when v_messages = 0;
      if e.lane is null then
        exit when not v_first and e.bytes > v_bytes;
        v_epoch := nextval('epochs') << 16;
        v_ids := v_ids || e.id;
        v_id_epochs := v_id_epochs || v_epoch;
        v_messages := v_messages - 1;
        v_bytes := greatest(0, v_bytes - e.bytes);
        v_places := v_places || message_place(q.id, e.id);
        v_epochs := v_epochs || v_epoch;
      else
        select * into l from lanes where id = e.lane;
        l := catch_up_lane(l, v_now);
        if best_priority(l) is null then
          perform save_lane(l, v_now);
          continue;
        end if;
        if not v_first and (select m.bytes from messages m
                             where m.lane = l.id and m.wakes_at is null and m.epoch is null
                             order by m.due, m.id limit 1) > v_bytes then
          exit;
        end if;
        l := begin_lease(l, v_until, p_client, p_number);
        if l.isolate_next then
          l.isolate_next := false;
          l.isolated := true;
          c := carry_visible(l, 0, v_first, 1, v_bytes);
          v_messages := v_messages - 1;
        else
          c := carry_visible(l, 0, v_first, v_messages, v_bytes);
          v_messages := c.messages_left;
        end if;
        v_bytes := c.bytes_left;
        perform store_lane(c.lane);
        v_places := v_places || lane_place(q.id, l.id);
        v_epochs := v_epochs || l.epoch;
      end if;
      v_turns := v_turns || e.turn;
      v_first := false;
    end loop;
    if cardinality(v_ids) > 0 then
      delete from ready t using messages m
       where m.queue = q.id and m.id = any (v_ids)
         and t.queue = q.id and t.priority = m.priority and t.turn = m.turn;
      update messages m set epoch = u.epoch, lease_until = v_until, deliveries = m.deliveries + 1,
                            turn = null, ttl_at = null, pulled = 0,
                            request_client = p_client, request_number = p_number
        from unnest(v_ids, v_id_epochs) as u (id, epoch)
       where m.queue = q.id and m.id = u.id;
    end if;
    -- What was locked and not taken was hidden from others for a while. With as many entries as were
    -- asked for, there may be such beyond them.
    if cardinality(v_places) < cardinality(v_entries)
       or cardinality(v_entries) = least(p_lanes, p_messages) then
      perform tell_queue(q.id);
    end if;
  end if;

  if p_client is not null and cardinality(v_places) > 0 then
    perform remember_request(p_client, p_number, v_now + p_window, v_places, v_epochs);
  end if;
  return query select g.n, g.epoch, g.place, g.key, g.label, g.lease_until, g.cursor, g.isolated,
                      g.more, v_turns[g.n], g.lane_priority, g.id, g.body, g.headers, g.priority, g.deliveries,
                      g.attempts, g.enqueued_at, g.due, g.expires_at, g.name, g.topic, v_low, v_high
                 from look_at_leases(v_places, v_epochs) g;
end $$;

create function remember_request(p_client bigint, p_number bigint, p_forget_at bigint,
                                 p_places bigint[], p_epochs bigint[]) returns void
language plpgsql as $$
begin
  insert into requests values (p_client, p_number, p_forget_at, p_places, p_epochs)
  on conflict (client, number) do update
    set forget_at = excluded.forget_at, places = excluded.places, epochs = excluded.epochs;
end $$;

create function any_current(p_places bigint[], p_epochs bigint[]) returns boolean
language plpgsql stable as $$
begin
  return exists (select 1 from unnest(p_places, p_epochs) as g (place, epoch)
    where exists (select 1 from lanes l where not is_message(g.place)
                     and l.id = number_of(g.place) and l.epoch = g.epoch)
       or exists (select 1 from messages m where is_message(g.place)
                     and m.queue = queue_of(g.place) and m.id = number_of(g.place)
                     and m.epoch = g.epoch)
       or exists (select 1 from bundles b where b.number = g.epoch >> 16));
end $$;

create function refuse_lost(p_epoch bigint) returns void language plpgsql as $$
begin
  perform refuse('STLOS', format('the lease with epoch %s is over: it ran out, was settled, or '
                                 'taken by another', p_epoch));
end $$;

-- Gives back what a lease carries, uncharged, and ends it. The lane is not saved. The holder is not
-- told: whoever takes its lease away has to.
create function end_lease(l lanes, p_now bigint) returns lanes language plpgsql as $$
declare
  m messages;
  v_epoch bigint := l.epoch;
begin
  if l.carried > 0 then
    for m in select * from messages t where t.lane = l.id and t.epoch = v_epoch
              order by t.due, t.id loop
      l := give_back(l, m, p_now);
    end loop;
  end if;
  l.epoch := null;
  l.lease_until := null;
  l.isolated := false;
  l.request_client := null;
  l.request_number := null;
  return l;
end $$;

-- The same against the will of its holder.
create function take_lease_away(l lanes, p_now bigint) returns lanes language plpgsql as $$
begin
  perform tell_lease(l.epoch);
  return end_lease(l, p_now);
end $$;

-- The lane of a token, locked; refuses when the token is not current.
create function held_lane(p_place bigint, p_epoch bigint, p_now bigint) returns lanes
language plpgsql as $$
declare
  l lanes;
begin
  select * into l from lanes where id = number_of(p_place) for update;
  if l.epoch is distinct from p_epoch or l.lease_until <= p_now then
    perform refuse_lost(p_epoch);
  end if;
  return l;
end $$;
create function held_message(p_place bigint, p_epoch bigint, p_now bigint) returns messages
language plpgsql as $$
declare
  m messages;
begin
  perform open_bundles(array[p_epoch]);
  select * into m from messages
   where queue = queue_of(p_place) and id = number_of(p_place) for update;
  if m.epoch is distinct from p_epoch or m.lease_until <= p_now then
    perform refuse_lost(p_epoch);
  end if;
  return m;
end $$;

create function pull(p_place bigint, p_epoch bigint, p_cursor bigint, p_messages int,
                     p_bytes bigint)
returns setof granted language plpgsql as $$
declare
  v_now bigint := now_ms();
  l lanes;
  c record;
  v_more boolean;
begin
  if is_message(p_place) then
    perform held_message(p_place, p_epoch, v_now);
    if p_cursor <> 1 then perform refuse_cursor(p_cursor, 1); end if;
    return query select 1, p_epoch, p_place, null::bytea, '', 0::bigint, 1::bigint, false, false,
                        null::bigint, 0, null::bigint, null::bytea, null::bytea, 0, 0, 0, 0::bigint,
                        0::bigint, null::bigint, null::bytea, null::text,
                        null::bigint, null::bigint;
    return;
  end if;
  l := held_lane(p_place, p_epoch, v_now);
  if p_cursor <> l.cursor and not (p_cursor + 1 = l.cursor and p_cursor <> 0) then
    perform refuse_cursor(p_cursor, l.cursor);
  end if;
  if p_cursor = l.cursor then
    if l.isolated or (select paused from queues where id = l.queue) then
      return query select 1, p_epoch, p_place, l.key, l.label, l.lease_until, p_cursor, l.isolated,
                          false, null::bigint, 0, null::bigint, null::bytea, null::bytea, 0, 0, 0,
                          0::bigint, 0::bigint, null::bigint, null::bytea, null::text,
                          null::bigint, null::bigint;
      return;
    end if;
    l := catch_up_lane(l, v_now);
    c := carry_visible(l, p_cursor, true, p_messages, p_bytes);
    l := c.lane;
    if c.count > 0 then
      l.cursor := l.cursor + 1;
      perform store_lane(l);
    end if;
  end if;
  v_more := not l.isolated and has_more(l);
  return query
    select 1, l.epoch, p_place, l.key, l.label, l.lease_until, l.cursor, l.isolated, v_more,
           null::bigint, l.priority, m.id, coalesce(m.body, b.body, ''), m.headers, m.priority, m.deliveries,
           m.attempts, m.enqueued_at, m.due, m.expires_at, m.name, m.topic, null::bigint,
           null::bigint
      from (select 1) one
      left join messages m on m.lane = l.id and m.epoch = l.epoch and m.pulled = p_cursor
      left join bodies b on b.id = m.body_at;
end $$;

create function refuse_cursor(p_asked bigint, p_next bigint) returns void language plpgsql as $$
begin
  perform refuse('STCUR', format('cursor %s is neither the next one of this lease (%s) nor its '
                                 'last', p_asked, p_next));
end $$;

-- The new ends, in order; 0 where the token is not current.
create function renew(p_places bigint[], p_epochs bigint[], p_lease bigint) returns bigint[]
language plpgsql as $$
declare
  v_now bigint := now_ms();
  v_result bigint[] := array_fill(0::bigint, array[cardinality(p_places)]);
  v_of_it int[];
  v_one int;
  b bundles;
  r record;
begin
  perform 1 from (select l.id from lanes l join unnest(p_places) as u (place)
                      on not is_message(u.place) and l.id = number_of(u.place)
                   order by l.queue, l.key for update of l) locked;
  -- A bundle of which all that is left is renewed stays one.
  for b in select t.* from bundles t
            where t.number = any (array(select distinct e >> 16 from unnest(p_epochs) e))
            order by t.number for update loop
    v_of_it := array(select u.n::int from unnest(p_places, p_epochs) with ordinality as u (place, epoch, n)
                       join messages m on m.queue = b.queue and m.id = number_of(u.place)
                      where is_message(u.place) and u.epoch >> 16 = b.number
                        and m.id = b.ids[(u.epoch & 65535) + 1]);
    if cardinality(v_of_it) = b.held and b.lease_until > v_now then
      update bundles set lease_until = v_now + p_lease where number = b.number;
      foreach v_one in array v_of_it loop v_result[v_one] := v_now + p_lease; end loop;
    else
      perform open_bundle(b);
    end if;
  end loop;
  for r in select u.place, u.epoch, u.n from unnest(p_places, p_epochs)
                  with ordinality as u (place, epoch, n) order by u.place loop
    continue when v_result[r.n] > 0;
    if is_message(r.place) then
      update messages set lease_until = v_now + p_lease
       where queue = queue_of(r.place) and id = number_of(r.place) and epoch = r.epoch
         and lease_until > v_now;
    else
      update lanes set lease_until = v_now + p_lease
       where id = number_of(r.place) and epoch = r.epoch and lease_until > v_now;
    end if;
    if found then v_result[r.n] := v_now + p_lease; end if;
  end loop;
  return v_result;
end $$;
