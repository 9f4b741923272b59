-- Mends what check.sql calls repairable, all but the counts and turns of lanes: these are in
-- repair_lanes.sql, which comes behind it in the same transaction. Nobody has the store open. Rows
-- that are right are not written. Nothing that can be read is dropped. Not part of the schema.

-- Numbers and epochs must not come again.
select setval('numbers', greatest(last_value, u.highest), is_called or u.highest >= last_value)
  from numbers, (select greatest((select max(greatest(id, turn)) from messages),
                                 (select max(id) from dead),
                                 (select max(greatest(id, turn)) from lanes),
                                 (select max(version) from records),
                                 (select max(number) from instances),
                                 (select max(id) from bodies),
                                 (select max(id) from retained),
                                 (select max(first) from dedup)) as highest) u
 where u.highest is not null;
select setval('epochs', greatest(last_value, u.highest), is_called or u.highest >= last_value)
  from epochs, (select greatest((select max(epoch >> 16) from messages),
                                (select max(epoch >> 16) from lanes),
                                (select max(number) from bundles),
                                (select max(e >> 16) from requests, unnest(epochs) e)) as highest) u
 where u.highest is not null;

-- Queues, lanes and topics that something belongs to.
insert into queues (id, name)
select o.queue, 'recovered-' || o.queue ||
       case when exists (select 1 from queues q where q.name = 'recovered-' || o.queue)
            then '-' || md5(random()::text) else '' end
  from (select queue from messages union select queue from dead union select queue from instances
        union select queue from lanes) o
 where not exists (select 1 from queues q where q.id = o.queue);
insert into lanes (id, queue, key)
select m.lane, min(m.queue), convert_to('recovered-' || m.lane, 'UTF8') from messages m
 where m.lane is not null and not exists (select 1 from lanes l where l.id = m.lane)
 group by m.lane;
insert into topics (name, retain)
select distinct r.topic, 315360000000 from retained r
 where not exists (select 1 from topics t where t.name = r.topic);
update queues set pattern = null
 where pattern !~ '^((\*|[^.*#]+)(\.(\*|[^.*#]+))*(\.#)?|#)$';

-- Bundles are opened, those that are not what they say as well: a message is not leased twice by that,
-- because one that has a lease keeps it.
update messages m set epoch = (b.number << 16) + u.n - 1, lease_until = b.lease_until,
                      graced = b.graced, deliveries = m.deliveries + 1, turn = null, pulled = 0,
                      ttl_at = null, request_client = b.request_client,
                      request_number = b.request_number
  from bundles b, unnest(b.ids) with ordinality as u (id, n)
 where m.queue = b.queue and m.id = u.id and m.lane is null and m.epoch is null
   and m.wakes_at is null;
delete from bundles;

-- Leases that contradict themselves or each other end. Their messages are given back below, because
-- their lane has no such epoch any more.
create temporary table twice on commit drop as
select epoch from (select epoch from lanes union all select epoch from messages where lane is null) l
 where epoch is not null group by epoch having count(*) > 1;
update lanes set epoch = null, lease_until = null, isolated = false, request_client = null,
                 request_number = null
 where (epoch is null) <> (lease_until is null)
    or (epoch is null and (isolated or request_client is not null))
    or (request_client is null) <> (request_number is null)
    or (park_reason is not null and epoch is not null)
    or epoch in (select epoch from twice);
update messages set epoch = null, pulled = null, lease_until = null, graced = false,
                    request_client = null, request_number = null
 where lane is null
   and ((epoch is null) <> (lease_until is null) or (epoch is null and request_client is not null)
        or (request_client is null) <> (request_number is null)
        or (park_reason is not null and epoch is not null)
        or epoch in (select epoch from twice));
update messages m set epoch = null, pulled = null
 where m.lane is not null and m.epoch is not null
   and not exists (select 1 from lanes l where l.id = m.lane and l.epoch = m.epoch);
delete from requests where cardinality(places) <> cardinality(epochs) or cardinality(places) = 0;
update lanes l set request_client = null, request_number = null
 where l.request_client is not null and not exists (
   select 1 from requests r where r.client = l.request_client and r.number = l.request_number);
update messages m set request_client = null, request_number = null
 where m.request_client is not null and (m.lane is not null or not exists (
   select 1 from requests r where r.client = m.request_client and r.number = m.request_number));

-- What messages say of themselves follows from their due time, backoff and TTL.
with meant as (
  select queue, id,
         case when epoch is null then expires_at end as ttl_at,
         case when epoch is null and greatest(due, not_before) > now_ms()
              then greatest(due, not_before) end as wakes_at,
         case when epoch is null and greatest(due, not_before) > now_ms()
              then not_before end as not_before,
         epoch is null and blocks and lane is not null and not_before is not null
           and greatest(due, not_before) > now_ms() as blocks,
         case when epoch is not null then coalesce(pulled, 0) end as pulled
    from messages
   where case when epoch is null
         then ttl_at is distinct from expires_at
           or (wakes_at is null and (not_before is not null or blocks))
           or wakes_at <> greatest(due, not_before)
           or (blocks and (not_before is null or lane is null)) or pulled is not null
         else ttl_at is not null or wakes_at is not null or not_before is not null or blocks
           or pulled is null end)
update messages m set ttl_at = t.ttl_at, wakes_at = t.wakes_at, not_before = t.not_before,
                      blocks = t.blocks, pulled = t.pulled
  from meant t where m.queue = t.queue and m.id = t.id;
update messages set turn = null, lease_until = null, park_reason = null
 where lane is not null and (turn is not null or lease_until is not null or park_reason is not null);
update messages m set turn = null
 where m.lane is null and m.turn is not null
   and (m.epoch is not null or m.wakes_at is not null or m.park_reason is not null
        or not exists (select 1 from ready r where r.queue = m.queue and r.priority = m.priority
                          and r.turn = m.turn and r.id = m.id and r.bytes = m.bytes
                          and r.label = m.label and r.ttl_at is not distinct from m.ttl_at));
delete from ready r
 where not exists (select 1 from messages m where m.queue = r.queue and m.id = r.id
                      and m.priority = r.priority and m.turn = r.turn and m.lane is null);
update messages set turn = nextval('numbers')
 where lane is null and turn is null and epoch is null and wakes_at is null and park_reason is null;
insert into ready (queue, priority, turn, id, since, ttl_at, bytes, label)
select m.queue, m.priority, m.turn, m.id, now_ms(), m.ttl_at, m.bytes, m.label from messages m
 where m.lane is null and m.turn is not null
on conflict do nothing;

-- What belongs to nothing.
delete from dead d using messages m where m.queue = d.queue and m.id = d.id;
delete from bodies b
 where not exists (select 1 from messages m where m.body_at = b.id)
   and not exists (select 1 from dead d where d.body_at = b.id)
   and not exists (select 1 from retained r where r.id = b.id)
   -- While one is missing somewhere, the reference may be what is wrong.
   and not exists (select 1 from (select body_at as id from messages union select body_at from dead
                                  union select id from retained) s
                    where s.id is not null and not exists (select 1 from bodies t where t.id = s.id));
delete from dedup d
 where d.first <= 0 or d.dedup_id = '' or (d.queue = 0) = (d.topic = '')
    or (d.queue <> 0 and not exists (select 1 from queues q where q.id = d.queue));
delete from tallies t where not exists (select 1 from queues q where q.id = t.queue);
do $$
begin
  if exists (select 1 from (select number as instance, execution, first_event, length
                              from instances
                            union all select instance, execution, first_event, length
                              from executions) s
              where s.first_event < 0 or s.length - s.first_event <>
                    (select count(*) from events e where e.instance = s.instance
                        and e.execution = s.execution and e.number >= s.first_event
                        and e.number < s.length))
     or exists (select 1 from instances i where i.execution - i.first_execution <>
                  (select count(*) from executions e where e.instance = i.number
                      and e.execution >= i.first_execution and e.execution < i.execution)) then
    return;  -- An orphan may be what another history lacks.
  end if;
  delete from executions e
   where not exists (select 1 from instances i where i.number = e.instance
                        and e.execution >= i.first_execution and e.execution < i.execution);
  delete from events e
   where not exists (select 1 from instances i where i.number = e.instance
                        and i.execution = e.execution
                        and e.number >= i.first_event and e.number < i.length)
     and not exists (select 1 from executions x where x.instance = e.instance
                        and x.execution = e.execution
                        and e.number >= x.first_event and e.number < x.length);
end $$;

-- Clients are kept as long as their receipts.
insert into clients (client, lowest, forget_at)
select client, min(number), max(forget_at) from receipts where forget_at > now_ms()
 group by client
on conflict (client) do update set forget_at = excluded.forget_at
 where clients.forget_at < excluded.forget_at;
delete from receipts r using clients c
 where c.client = r.client and r.forget_at > now_ms() and c.forget_at > now_ms()
   and r.number < c.lowest;

-- Counters: what is there counts; `accepted` makes up the difference.
with there as (
  select q.id, coalesce(m.live, 0) as live, coalesce(m.bytes, 0) as bytes,
         coalesce(d.dead, 0) as dead
    from queues q
    left join (select queue, count(*) as live, sum(bytes + 144::bigint) as bytes
                 from messages group by queue) m on m.queue = q.id
    left join (select queue, count(*) as dead from dead group by queue) d on d.queue = q.id),
counted as (
  select q.id, coalesce(sum(t.accepted - t.acked - t.expired - t.dropped - t.moved - t.purged), 0)
               as held, coalesce(sum(t.dead), 0) as dead, coalesce(sum(t.bytes), 0) as bytes
    from queues q left join tallies t on t.queue = q.id group by q.id)
insert into tallies (queue, accepted, dead, bytes)
select h.id, h.live + h.dead - c.held, h.dead - c.dead, h.bytes - c.bytes
  from there h join counted c on c.id = h.id
 where (h.live + h.dead, h.dead, h.bytes) <> (c.held, c.dead, c.bytes);
