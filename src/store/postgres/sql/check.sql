-- Everything that must hold in a store between transactions, as one query, so that it sees one
-- state even while the store is in use. Rows: kind, what, whether repair.sql mends it. It comes
-- behind "with" and check_lanes.sql. Not part of the schema.
, used (number, what) as (
  select max(greatest(id, turn)), 'a message' from messages
  union all select max(id), 'a dead letter' from dead
  union all select max(greatest(id, turn)), 'a lane' from lanes
  union all select max(version), 'a record' from records
  union all select max(number), 'an instance' from instances
  union all select max(id), 'a body' from bodies
  union all select max(id), 'a publication' from retained
  union all select max(first), 'a dedup id' from dedup),
used_epochs (number, what) as (
  select max(epoch >> 16), 'a lane' from lanes
  union all select max(epoch >> 16), 'a message' from messages
  union all select max(number), 'a bundle' from bundles
  union all select max(e >> 16), 'a request' from requests, unnest(epochs) e),
bundled (number, queue, id, epoch) as (
  select b.number, b.queue, u.id, (b.number << 16) + u.n - 1
    from bundles b, unnest(b.ids) with ordinality as u (id, n)),
-- Unkeyed messages: whether they can be leased, and whether they should.
lined_up as (
  select m.queue, m.id, m.turn, r.id is not null as is_ready,
         m.epoch is null and m.wakes_at is null and m.park_reason is null
           and not exists (select 1 from bundled b where b.queue = m.queue and b.id = m.id)
           as should_be
    from messages m
    left join ready r on r.queue = m.queue and r.priority = m.priority and r.turn = m.turn
     and r.id = m.id and r.bytes = m.bytes and r.label = m.label
     and r.ttl_at is not distinct from m.ttl_at
   where m.lane is null),
owners (queue, what) as (
  select distinct queue, 'messages' from messages
  union all select distinct queue, 'dead letters' from dead
  union all select distinct queue, 'instances' from instances
  union all select distinct queue, 'lanes' from lanes),
sums as (
  select q.id, q.name, coalesce(t.live, 0) as live, coalesce(t.dead, 0) as dead,
         coalesce(t.bytes, 0) as bytes, coalesce(m.count, 0) as live_there,
         coalesce(m.bytes, 0) as bytes_there, coalesce(d.count, 0) as dead_there
    from queues q
    left join (select queue, sum(dead) as dead, sum(bytes) as bytes,
                      sum(accepted - acked - expired - dropped - moved - purged - dead) as live
                 from tallies group by queue) t on t.queue = q.id
    left join (select queue, count(*), sum(bytes + 144::bigint) as bytes
                 from messages group by queue) m on m.queue = q.id
    left join (select queue, count(*) from dead group by queue) d on d.queue = q.id),
leases (epoch) as (
  select epoch from lanes where epoch is not null
  union all select epoch from messages where lane is null and epoch is not null
  union all select b.epoch from bundled b join messages m on m.queue = b.queue and m.id = b.id),
shared (id, what) as (
  select body_at, format('message %s', id) from messages where body_at is not null
  union all select body_at, format('dead letter %s', id) from dead where body_at is not null
  union all select id, format('publication %s of topic ''%s''', id, topic) from retained),
lost_bodies as (
  select s.* from shared s where not exists (select 1 from bodies b where b.id = s.id)),
spans (instance, execution, first, length, closed) as (
  select number, execution, first_event, length, outcome is not null from instances
  union all select instance, execution, first_event, length, outcome is not null from executions),
chains as (
  select instance, execution, count(*), min(number) as first, max(number) as last
    from events group by instance, execution),
gaps (instance, execution, what) as (
  select s.instance, s.execution,
         format('execution %s of instance number %s has %s of its %s events: restore them from a '
                'backup', s.execution, s.instance, e.inside, s.length - s.first)
    from spans s left join lateral (
      select count(*) as inside from events v where v.instance = s.instance
         and v.execution = s.execution and v.number >= s.first and v.number < s.length) e on true
   where e.inside <> s.length - s.first or s.first < 0),
lost_executions (instance, what) as (
  select i.number, format('instance ''%s'' (number %s) has lost %s of its executions %s to %s: '
                          'restore them from a backup', shown(i.key), i.number,
                          i.execution - i.first_execution - count(e.execution),
                          i.first_execution, i.execution - 1)
    from instances i left join executions e on e.instance = i.number
     and e.execution >= i.first_execution and e.execution < i.execution
   group by i.queue, i.key having count(e.execution) <> i.execution - i.first_execution),
whole as (
  select not exists (select 1 from lost_bodies) as bodies,
         not exists (select 1 from gaps) and not exists (select 1 from lost_executions)
           as histories),
found (kind, what, repairable) as (
  -- Numbers.
  select 'number_not_reserved', format('%s has the number %s, and the sequence is at %s: it would '
                                       'be given out again', u.what, u.number, s.last_value), true
    from used u, numbers s where u.number > s.last_value - (not s.is_called)::int
  union all
  select 'number_not_reserved', format('%s has an epoch of number %s, and the sequence is at %s: tokens '
                                       'would be valid again', u.what, u.number, s.last_value), true
    from used_epochs u, epochs s where u.number > s.last_value - (not s.is_called)::int
  -- Queues.
  union all
  select 'missing_queue', format('there are %s of queue number %s, which does not exist; repair '
                                 'makes it, as recovered-%s', o.what, o.queue, o.queue), true
    from owners o where not exists (select 1 from queues q where q.id = o.queue)
  union all
  select 'bad_queue', format('queue ''%s'' (number %s) has a name, number or setting that none can '
                             'have: configure it', name, id), false
    from queues where name = '' or id <= 0 or id > 131071 or max_attempts < 0 or ttl < 0
      or lease <= 0 or dedup_window < 0 or starvation_after < 0 or max_length < 0
      or jitter_percent < 0 or jitter_percent > 100 or 0 > any (backoff)
      or (notice_key is not null and notice_queue is null)
  union all
  select 'bad_subscription', format('queue ''%s'' is subscribed to ''%s'', which is no pattern: '
                                    'repair unsubscribes it', name, pattern), true
    from queues where pattern !~ '^((\*|[^.*#]+)(\.(\*|[^.*#]+))*(\.#)?|#)$'
  union all
  select 'orphan_counters', format('there are counters of queue number %s, which does not exist',
                                   t.queue), true
    from (select distinct queue from tallies) t
   where not exists (select 1 from owners o where o.queue = t.queue)
     and not exists (select 1 from queues q where q.id = t.queue)
  union all
  select 'wrong_dead_count', format('queue ''%s'' counts %s dead letters, and has %s', name, dead,
                                    dead_there), true
    from sums where dead <> dead_there
  union all
  select 'not_conserved', format('queue ''%s'' counts %s live messages by what came and went, and '
                                 'has %s', name, live, live_there), true
    from sums where live + dead <> live_there + dead_there
  union all
  select 'wrong_byte_count', format('queue ''%s'' counts %s bytes of live messages, and has %s',
                                    name, bytes, bytes_there), true
    from sums where bytes <> bytes_there
  -- Messages and dead letters.
  union all
  select 'missing_lane', format('message %s belongs to lane number %s, which does not exist; repair '
                                'makes it, with the key recovered-%s', m.id, m.lane, m.lane), true
    from messages m
   where m.lane is not null and not exists (select 1 from lanes l where l.id = m.lane)
  union all
  select 'bad_message', format('message %s of queue number %s is none that a store accepts: look at '
                               'it with SQL', m.id, m.queue), false
    from messages m left join lanes l on l.id = m.lane
   where m.queue <> l.queue or m.priority < 0 or m.priority > 3 or m.bytes < 0
      or m.due < m.enqueued_at or m.expires_at <= m.enqueued_at or m.name = ''
      or m.attempts < 0 or m.deliveries < 0 or octet_length(l.key) = 0
      or (m.body is null) = (m.body_at is null)
      or cardinality(m.failure_times) <> cardinality(m.failure_reasons)
      or (m.notice_key is not null and m.notice_queue is null)
  union all
  select 'bad_dead_letter', format('dead letter %s of queue number %s is none that a store makes: '
                                   'look at it with SQL', id, queue), false
    from dead
   where priority < 0 or priority > 3 or bytes < 0 or due < enqueued_at or key = '' or name = ''
      or attempts < 0 or deliveries < 0 or (body is null) = (body_at is null)
      or cardinality(failure_times) <> cardinality(failure_reasons)
  union all
  select 'bad_state', format('message %s of queue number %s does not say properly whether it waits, '
                             'blocks or expires', id, queue), true
    from messages
   where case when epoch is null
         then ttl_at is distinct from expires_at
           or (wakes_at is null and (not_before is not null or blocks))
           or wakes_at <> greatest(due, not_before)
           or (blocks and (not_before is null or lane is null)) or pulled is not null
         else ttl_at is not null or wakes_at is not null or not_before is not null or blocks
           or pulled is null end
      or (lane is not null and (turn is not null or lease_until is not null
                                or park_reason is not null or request_client is not null))
  union all
  select 'live_and_dead', format('message %s of queue ''%s'' is live, and a dead letter as well; '
                                 'repair drops the dead letter', m.id,
                                 (select name from queues where id = m.queue)), true
    from messages m join dead d on d.queue = m.queue and d.id = m.id
  -- Bodies.
  union all
  select 'missing_body', format('%s has lost its body (number %s): restore it from a backup', what,
                                id), false
    from lost_bodies
  union all
  select 'orphan_body', format('body %s belongs to nothing; %s', b.id, case when w.bodies
                               then 'upkeep drops it' else 'it is kept, because another is missing' end), w.bodies
    from bodies b, whole w where not exists (select 1 from shared s where s.id = b.id)
  union all
  select 'wrong_body_size', format('message %s of queue number %s has %s bytes of body and headers, '
                                   'and says %s: restore it from a backup', m.id, m.queue, m.found,
                                   m.bytes), false
    from (select id, queue, bytes, octet_length(body) + coalesce(headers_bytes(headers), 0) as found
            from messages where body is not null
          union all
          select id, queue, bytes, octet_length(body) + coalesce(headers_bytes(headers), 0)
            from dead where body is not null) m
   where m.found <> m.bytes
  -- Topics.
  union all
  select 'bad_topic', format('topic ''%s'' retains for %s ms: configure it', name, retain), false
    from topics where retain <= 0 or name = ''
  union all
  select 'missing_topic', format('there are retained messages of topic ''%s'', which retains none; '
                                 'repair has it retain for ten years', r.topic), true
    from (select distinct topic from retained) r
   where not exists (select 1 from topics t where t.name = r.topic)
  union all
  select 'bad_publication', format('publication %s of topic ''%s'' is none that a store accepts',
                                   id, topic), false
    from retained where key = '' or priority < 0 or priority > 3 or ttl <= 0
  -- Lanes.
  union all
  select 'orphan_lane', format('lane ''%s'' of queue number %s has no messages, and nothing to '
                               'remember', shown(l.key), l.queue), true
    from lanes l join truth t on t.id = l.id
   where t.live = 0 and l.epoch is null and l.park_reason is null and l.hint_owner is null
  union all
  select 'bad_lane', format('lane ''%s'' of queue number %s says what cannot be of its hint, its '
                            'isolation or its latest message', shown(l.key), l.queue), true
    from lanes l join truth t on t.id = l.id
   where (l.hint_owner is null) <> (l.hint_until is null)
      or (l.hint_owner is null) <> (l.hint_grace is null)
      or (l.isolate_next and t.live = 0) or l.last_time < t.latest
  union all
  select 'wrong_lane_counts',
         format('lane ''%s'' of queue number %s counts its messages as (live, carried, waiting, '
                'backoff, by priority) %s, and they are %s', shown(l.key), l.queue,
                (l.live, l.carried, l.waiting, l.backoff, l.woken_0, l.woken_1, l.woken_2, l.woken_3),
                (t.live, t.carried, t.waiting, t.backoff, t.woken_0, t.woken_1, t.woken_2,
                 t.woken_3)), true
    from lanes l join truth t on t.id = l.id
   where (l.live, l.carried, l.waiting, l.backoff, l.woken_0, l.woken_1, l.woken_2, l.woken_3)
      <> (t.live, t.carried, t.waiting, t.backoff, t.woken_0, t.woken_1, t.woken_2, t.woken_3)
  union all
  select 'wrong_barrier', format('lane ''%s'' of queue number %s is held back by message %s, and it '
                                 'should be %s', shown(l.key), l.queue,
                                 coalesce(l.barrier_id::text, 'none'),
                                 coalesce(t.barrier_id::text, 'none')), true
    from lanes l join truth t on t.id = l.id
   where l.barrier_id is distinct from t.barrier_id or l.barrier_due is distinct from t.barrier_due
  union all
  select 'wrong_turn', format('lane ''%s'' of queue number %s is %s, and should be %s', shown(l.key),
                              l.queue,
                              case when l.turn is null then 'not ready'
                                   else 'ready with priority ' || l.priority end,
                              case when t.ready is null then 'not ready'
                                   else 'ready with priority ' || t.ready end), true
    from lanes l join truth t on t.id = l.id
   where (l.turn is null) <> (t.ready is null) or (l.turn is not null and l.priority <> t.ready)
      or (l.turn is null) <> (l.ready_since is null)
  union all
  select 'wrong_turn', format('unkeyed message %s of queue number %s is%s ready, against what it says '
                              'of itself', id, queue, case when is_ready then '' else ' not' end),
         true
    from lined_up where is_ready <> should_be
  union all
  select 'wrong_turn', format('unkeyed message %s of queue number %s is ready with a turn that is not '
                              'its own, or does not exist', r.id, r.queue), true
    from ready r
   where not exists (select 1 from lined_up u where u.queue = r.queue and u.id = r.id
                        and u.turn = r.turn and u.is_ready)
  union all
  select 'lane_label_differs', format('lane ''%s'' of queue number %s has the label ''%s'', and its '
                                      'open execution ''%s''', shown(l.key), l.queue, l.label,
                                      i.label), true
    from lanes l join instances i on i.queue = l.queue and i.key = l.key
   where i.outcome is null and i.label <> l.label
  -- Leases.
  union all
  select 'bad_lease', format('lane ''%s'' of queue number %s has half a lease (epoch %s, until %s); '
                             'repair ends it', shown(key), queue, coalesce(epoch::text, 'none'),
                             coalesce(lease_until::text, 'never')), true
    from lanes where (epoch is null) <> (lease_until is null)
      or (epoch is null and (isolated or request_client is not null))
      or (request_client is null) <> (request_number is null)
  union all
  select 'bad_lease', format('unkeyed message %s of queue number %s has half a lease (epoch %s, until '
                             '%s); repair ends it', id, queue, coalesce(epoch::text, 'none'),
                             coalesce(lease_until::text, 'never')), true
    from messages where lane is null and ((epoch is null) <> (lease_until is null)
      or (epoch is null and request_client is not null)
      or (request_client is null) <> (request_number is null))
  union all
  select 'bad_lease', format('the leases with epochs from %s, of queue number %s, are said to be %s, '
                             'and %s are there; repair writes them anew', b.number << 16, b.queue, b.held,
                             t.count), true
    from bundles b, lateral (
      select count(*) from unnest(b.ids) u join messages m on m.queue = b.queue and m.id = u
       where m.lane is null and m.epoch is null and m.wakes_at is null) t
   where t.count <> b.held or b.held <= 0
      or (b.request_client is null) <> (b.request_number is null)
  union all
  select 'lease_of_parked_lane', format('lane ''%s'' of queue number %s is parked, and leased; repair '
                                        'ends the lease', shown(key), queue), true
    from lanes where park_reason is not null and epoch is not null
  union all
  select 'lease_of_parked_lane', format('unkeyed message %s of queue number %s is parked, and leased; '
                                        'repair ends the lease', id, queue), true
    from messages where lane is null and park_reason is not null and epoch is not null
  union all
  select 'lease_of_parked_lane', format('unkeyed message %s of queue number %s is parked, and leased; '
                                        'repair ends the lease', m.id, m.queue), true
    from messages m join bundled b on b.queue = m.queue and b.id = m.id
   where m.park_reason is not null
  union all
  select 'lease_of_foreign_message', format('message %s is under a lease with epoch %s, which its '
                                            'lane does not have; repair gives it back', m.id,
                                            m.epoch), true
    from messages m left join lanes l on l.id = m.lane
   where m.lane is not null and m.epoch is not null and l.epoch is distinct from m.epoch
  union all
  select 'epoch_taken', format('%s leases have the epoch %s; repair ends them', count(*), epoch), true
    from leases group by epoch having count(*) > 1
  union all
  select 'unknown_request', format('the lease with epoch %s came by request %s of client %s, which is '
                                   'not remembered', l.epoch, l.number, l.client), true
    from (select epoch, request_client as client, request_number as number from lanes
          union all select epoch, request_client, request_number from messages
          union all select number << 16, request_client, request_number from bundles) l
   where l.client is not null and not exists (
     select 1 from requests r where r.client = l.client and r.number = l.number)
  union all
  select 'bad_request', format('request %s of client %s does not name its leases', number, client),
         true
    from requests
   where cardinality(places) <> cardinality(epochs) or cardinality(places) = 0
  -- Ids that make repeats harmless.
  union all
  select 'orphan_dedup', format('there are dedup ids of queue number %s, topic ''%s'', which is '
                                'nothing', d.queue, d.topic), true
    from (select distinct queue, topic from dedup) d
   where (d.queue = 0) = (d.topic = '')
      or (d.queue <> 0 and not exists (select 1 from queues q where q.id = d.queue)
          and not exists (select 1 from owners o where o.queue = d.queue))
  union all
  select 'bad_dedup', format('dedup id ''%s'' of queue number %s names no message', shown(dedup_id),
                             queue), true
    from dedup where first <= 0 or dedup_id = ''
  union all
  select 'missing_client', format('transaction %s has a receipt, and its client %s is not known',
                                  r.number, r.client), true
    from receipts r where r.forget_at > now_ms()
     and not exists (select 1 from clients c where c.client = r.client)
  union all
  select 'client_forgotten_early', format('client %s is forgotten before the receipt of its '
                                          'transaction %s', r.client, r.number), true
    from receipts r join clients c on c.client = r.client
   where r.forget_at > now_ms() and c.forget_at < r.forget_at
  union all
  select 'answered_receipt', format('transaction %s of client %s has a receipt, and is below %s, up '
                                    'to which it was answered', r.number, r.client, c.lowest), true
    from receipts r join clients c on c.client = r.client
   where r.forget_at > now_ms() and c.forget_at > now_ms() and r.number < c.lowest
  union all
  select 'bad_receipt', format('the receipt of transaction %s of client %s does not answer all of '
                               'it', number, client), false
    from receipts
   where cardinality(sent) <> cardinality(duplicate)
      or cardinality(published) <> cardinality(republished)
      or cardinality(published) <> cardinality(matched)
  -- Histories and records.
  union all
  select 'bad_instance', format('instance ''%s'' of queue number %s has executions %s to %s, events '
                                'from %s on and a length of %s: restore it from a backup',
                                shown(key), queue, first_execution, execution, first_event, length),
         false
    from instances where first_execution < 1 or first_execution > execution or first_event < 0
      or first_event > length
  union all
  select 'missing_execution', what, false from lost_executions
  union all
  select 'bad_execution', format('execution %s of instance number %s is followed by another, and was '
                                 'never closed', execution, instance), false
    from executions where outcome is null
  union all
  select 'bad_execution', format('execution %s of instance number %s has events from %s on and a '
                                 'length of %s: restore it from a backup', execution, instance,
                                 first_event, length), false
    from executions where first_event < 0 or first_event > length
  union all
  select 'orphan_execution', format('execution %s of instance number %s belongs to nothing%s',
                                    e.execution, e.instance, case when w.histories then '' else
                                    '; it is kept, because others are missing' end), w.histories
    from executions e left join instances i on i.number = e.instance, whole w
   where i.number is null or e.execution < i.first_execution or e.execution >= i.execution
  union all
  select 'missing_event', what, false from gaps
  union all
  select 'orphan_event', format('execution %s of instance number %s has events %s to %s, %s%s',
                                c.execution, c.instance, c.first, c.last,
                                case when s.length is null then 'and does not exist'
                                     else format('and those from %s on and before %s',
                                                 s.first, s.length) end,
                                case when w.histories then '' else
                                '; they are kept, because others are missing' end), w.histories
    from chains c left join spans s on s.instance = c.instance and s.execution = c.execution,
         whole w
   where s.length is null or c.last >= s.length or c.first < s.first
  union all
  select 'bad_record', format('record ''%s'' in space ''%s'' has the version %s: write it again',
                              shown(key), shown(space), version), false
    from records where version <= 0)
