-- The ready order: which lanes and unkeyed messages are served next.

-- An entry of the ready order.
create type ready_entry as (priority int, turn bigint, ready_since bigint, lane bigint, id bigint, bytes int);

-- Locks the next entries of one priority, in order of turns.
create function next_ready(p_queue int, p_priority int, p_labels text[], p_owner text,
                           p_now bigint, p_limit int)
returns setof ready_entry language plpgsql as $$
begin
  if p_labels is null or '' = any (p_labels) then
    return query
      select l.priority, l.turn, l.ready_since, l.id, null::bigint, null::int from lanes l
       where l.queue = p_queue and l.priority = p_priority and l.turn is not null
         and (p_labels is null or l.label = '') and shows_itself(l, p_owner, p_now)
       order by l.turn limit p_limit for update skip locked;
    return query
      select r.priority, r.turn, r.since, null::bigint, r.id, r.bytes from ready r
       where r.queue = p_queue and r.priority = p_priority
         and (p_labels is null or r.label = '') and (r.ttl_at is null or r.ttl_at > p_now)
       order by r.turn limit p_limit for update skip locked;
  end if;
  for i in 1 .. coalesce(cardinality(p_labels), 0) loop
    continue when p_labels[i] = '';
    return query
      select l.priority, l.turn, l.ready_since, l.id, null::bigint, null::int from lanes l
       where l.queue = p_queue and l.priority = p_priority and l.turn is not null
         and l.label = p_labels[i] and l.label <> '' and shows_itself(l, p_owner, p_now)
       order by l.turn limit p_limit for update skip locked;
    return query
      select r.priority, r.turn, r.since, null::bigint, r.id, r.bytes from ready r
       where r.queue = p_queue and r.priority = p_priority
         and r.label = p_labels[i] and r.label <> '' and (r.ttl_at is null or r.ttl_at > p_now)
       order by r.turn limit p_limit for update skip locked;
  end loop;
end $$;

-- The next entries of all priorities, for requests that name no labels. Nothing of the bound's
-- priority waits in front of its turn, but lanes that were hidden from whoever found the bound: what
-- else the index still has there is dead, and would be walked in vain, again and again, while
-- somebody's old transaction keeps it from being cleaned away.
create function first_ready(p_queue int, p_bound_priority int, p_bound_turn bigint, p_owner text,
                            p_now bigint, p_limit int)
returns setof ready_entry language plpgsql as $$
declare
  v_count int := 0;
begin
  if p_bound_priority > 0 then
    return query
      select l.priority, l.turn, l.ready_since, l.id, null::bigint, null::int from lanes l
       where l.queue = p_queue and l.turn is not null and l.priority < p_bound_priority
         and shows_itself(l, p_owner, p_now)
       order by l.priority, l.turn limit p_limit for update skip locked;
    get diagnostics v_count = row_count;
  end if;
  return query
    select l.priority, l.turn, l.ready_since, l.id, null::bigint, null::int from lanes l
     where l.queue = p_queue and l.turn is not null and l.hint_owner is not null
       and l.priority = p_bound_priority and l.turn < p_bound_turn
       and shows_itself(l, p_owner, p_now)
     order by l.turn limit p_limit for update skip locked;
  if v_count < p_limit then
    return query
      select l.priority, l.turn, l.ready_since, l.id, null::bigint, null::int from lanes l
       where l.queue = p_queue and l.turn is not null
         and (l.priority, l.turn) >= (p_bound_priority, p_bound_turn)
         and shows_itself(l, p_owner, p_now)
       order by l.priority, l.turn limit p_limit - v_count for update skip locked;
  end if;
  v_count := 0;
  if p_bound_priority > 0 then
    return query
      select r.priority, r.turn, r.since, null::bigint, r.id, r.bytes from ready r
       where r.queue = p_queue and r.priority < p_bound_priority
         and (r.ttl_at is null or r.ttl_at > p_now)
       order by r.priority, r.turn limit p_limit for update skip locked;
    get diagnostics v_count = row_count;
  end if;
  if v_count < p_limit then
    return query
      select r.priority, r.turn, r.since, null::bigint, r.id, r.bytes from ready r
       where r.queue = p_queue and (r.priority, r.turn) >= (p_bound_priority, p_bound_turn)
         and (r.ttl_at is null or r.ttl_at > p_now)
       order by r.priority, r.turn limit p_limit - v_count for update skip locked;
  end if;
end $$;

-- Whether a lane can be had by this owner: a hint may hide it for a while.
create function shows_itself(l lanes, p_owner text, p_now bigint) returns boolean
language sql immutable as $$
  select l.hint_owner is null or l.hint_owner = p_owner or l.hint_until <= p_now
         or l.ready_since + l.hint_grace <= p_now
$$;

-- How many messages a lease of this lane brings at least.
create function countable(l lanes) returns int language sql immutable as $$
  select case when l.barrier_due is not null or l.isolate_next then 1
              else l.woken_0 + l.woken_1 + l.woken_2 + l.woken_3 end
$$;

-- The entries that are served next, locked: by priority, then by turn.
create function best_ready(p_queue int, p_bound_priority int, p_bound_turn bigint,
                           p_labels text[], p_owner text, p_now bigint, p_limit int)
returns ready_entry[] language plpgsql as $$
declare
  v_best ready_entry[] := '{}';
  v_rest int;
begin
  if p_labels is null then
    return array(select e from first_ready(p_queue, p_bound_priority, p_bound_turn, p_owner,
                                           p_now, p_limit) e
                  order by e.priority, e.turn limit p_limit);
  end if;
  for p in 0 .. 3 loop
    v_rest := p_limit - cardinality(v_best);
    exit when v_rest = 0;
    v_best := v_best || array(select n from next_ready(p_queue, p, p_labels, p_owner, p_now,
                                                       v_rest) n
                               order by n.turn limit v_rest);
  end loop;
  return v_best;
end $$;

-- Of every eight leases the eighth goes to the entry that has been ready longest, if that is at
-- least p_starving long.
create function pick_ready(p_queue int, p_bound_priority int, p_bound_turn bigint,
                           p_labels text[], p_owner text, p_now bigint, p_limit int,
                           p_granted bigint, p_starving bigint)
returns ready_entry[] language plpgsql as $$
declare
  v_best ready_entry[] := best_ready(p_queue, p_bound_priority, p_bound_turn, p_labels, p_owner,
                                     p_now, p_limit);
  v_count int := cardinality(v_best);
  v_oldest ready_entry[];
  v_picked ready_entry[] := '{}';
  v_taken bigint[] := '{}';
  v_next int := 1;
  v_aged int := 1;
  v_found ready_entry;
begin
  -- With one priority, the best is the oldest too, and there is nothing to do.
  if v_count = 0 or (p_granted + p_limit) / 8 = p_granted / 8
     or ((v_best[1]).priority = (v_best[v_count]).priority
         and not exists_below(p_queue, (v_best[1]).priority)) then
    return v_best;
  end if;
  -- The oldest may be among the best, and taken before its turn comes: so as many of them.
  v_oldest := array(
    select n from generate_series(0, 3) p,
           lateral next_ready(p_queue, p, p_labels, p_owner, p_now, p_limit) n
     where n.ready_since <= p_now - p_starving
     order by n.turn limit p_limit);
  while cardinality(v_picked) < p_limit loop
    v_found := null;
    if (p_granted + cardinality(v_picked) + 1) % 8 = 0 then
      while v_aged <= cardinality(v_oldest) and (v_oldest[v_aged]).turn = any (v_taken) loop
        v_aged := v_aged + 1;
      end loop;
      if v_aged <= cardinality(v_oldest) then v_found := v_oldest[v_aged]; end if;
    end if;
    if v_found.turn is null then
      while v_next <= v_count and (v_best[v_next]).turn = any (v_taken) loop
        v_next := v_next + 1;
      end loop;
      exit when v_next > v_count;
      v_found := v_best[v_next];
    end if;
    v_picked := v_picked || v_found;
    v_taken := v_taken || v_found.turn;
  end loop;
  return v_picked;
end $$;

-- Whether anything more urgent is ready.
create function exists_above(p_queue int, p_priority int) returns boolean
language plpgsql stable as $$
begin
  return exists (select 1 from lanes l
                  where l.queue = p_queue and l.priority < p_priority and l.turn is not null)
      or exists (select 1 from ready r where r.queue = p_queue and r.priority < p_priority);
end $$;

-- Whether anything less urgent is ready.
create function exists_below(p_queue int, p_priority int) returns boolean
language plpgsql stable as $$
begin
  return exists (select 1 from lanes l
                  where l.queue = p_queue and l.priority > p_priority and l.turn is not null)
      or exists (select 1 from ready r where r.queue = p_queue and r.priority > p_priority);
end $$;

-- Whether a request can have all that waits in these lanes, as it mostly can, and nothing is due in
-- them that another process has yet to apply.
create function whole_lanes_fit(p_lanes bigint[], p_messages int, p_bytes bigint, p_now bigint)
returns boolean
language plpgsql stable as $$
begin
  return cardinality(p_lanes) > 0
     and (select sum(woken_0 + woken_1 + woken_2 + woken_3) <= p_messages
                 and bool_and(barrier_due is null and not isolate_next)
            from lanes where id = any (p_lanes))
     and (select sum(m.bytes) filter (where m.wakes_at is null) <= p_bytes
                 and not coalesce(bool_or(m.wakes_at <= p_now or m.ttl_at <= p_now), false)
            from messages m where m.lane = any (p_lanes));
end $$;

-- Locks what is served next, if it is simple: only lanes that can be had whole, or only unkeyed
-- messages, of one priority, within the limits. Null ids if it is not, or others were faster.
create function pick_plain(p_queue int, p_bound_priority int, p_bound_turn bigint, p_owner text,
                           p_now bigint, p_limit int, p_messages int, p_bytes bigint,
                           out ids bigint[], out turns bigint[], out entries tid[],
                           out are_lanes boolean)
language plpgsql as $$
declare
  -- A cursor, so that no lane is locked beyond those that are taken.
  v_next cursor for
    select l.id, l.priority, l.turn, countable(l) as count from lanes l
     where l.queue = p_queue and l.turn is not null
       and (l.priority, l.turn) >= (p_bound_priority, p_bound_turn)
       and shows_itself(l, p_owner, p_now)
     order by l.priority, l.turn for update skip locked;
  v_messages bigint := 0;
  v_bytes bigint;
  v_ending int;
  v_first int;
  v_last int;
begin
  if p_bound_priority > 0 and exists_above(p_queue, p_bound_priority)
     or exists (select 1 from lanes l where l.queue = p_queue and l.turn is not null
                   and l.hint_owner is not null and l.priority = p_bound_priority
                   and l.turn < p_bound_turn and shows_itself(l, p_owner, p_now)) then
    return;
  end if;
  are_lanes := exists (select 1 from lanes l where l.queue = p_queue and l.turn is not null
                          and (l.priority, l.turn) >= (p_bound_priority, p_bound_turn));
  if are_lanes then
    if exists (select 1 from ready r where r.queue = p_queue) then
      return;
    end if;
    for l in v_next loop
      ids := ids || l.id;
      turns := turns || l.turn;
      v_first := coalesce(v_first, l.priority);
      v_last := l.priority;
      v_messages := v_messages + l.count;
      exit when v_messages >= p_messages or cardinality(ids) = p_limit;
    end loop;
    if ids is not null and not whole_lanes_fit(ids, p_messages, p_bytes, p_now) then
      ids := null;
    end if;
  else
    with locked as materialized (
      select r.ctid, r.id, r.priority, r.turn, r.bytes, r.ttl_at from ready r
       where r.queue = p_queue and (r.priority, r.turn) >= (p_bound_priority, p_bound_turn)
       order by r.priority, r.turn limit p_limit for update skip locked)
    select array_agg(k.id order by k.priority, k.turn), array_agg(k.turn order by k.priority, k.turn),
           array_agg(k.ctid), min(k.priority), max(k.priority), sum(k.bytes), count(k.ttl_at)
      into ids, turns, entries, v_first, v_last, v_bytes, v_ending from locked k;
    -- A TTL does not count under a lease, and the row has to say so.
    if v_bytes > p_bytes or v_ending > 0 then ids := null; end if;
  end if;
  -- With more than one priority, of every eight leases one goes by age.
  if ids is not null and (v_first <> v_last or exists_below(p_queue, v_last)) then
    ids := null;
  end if;
end $$;
