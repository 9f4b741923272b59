-- What the columns of each lane must be, by its messages: expressions of a WITH that check.sql and
-- the repair have in common. Not part of the schema.
barriers as (
  select distinct on (lane) lane, due, id from messages
   where blocks and lane is not null order by lane, due, id),
counted as (
  select m.lane, count(*) as live,
         count(*) filter (where m.epoch is not null) as carried,
         count(*) filter (where m.epoch is null and m.wakes_at is not null) as waiting,
         count(*) filter (where m.epoch is null and m.wakes_at is not null
                            and m.not_before is not null) as backoff,
         count(*) filter (where m.epoch is null and m.wakes_at is null and m.priority = 0) as woken_0,
         count(*) filter (where m.epoch is null and m.wakes_at is null and m.priority = 1) as woken_1,
         count(*) filter (where m.epoch is null and m.wakes_at is null and m.priority = 2) as woken_2,
         count(*) filter (where m.epoch is null and m.wakes_at is null and m.priority = 3) as woken_3,
         min(m.priority) filter (where m.epoch is null and m.wakes_at is null
           and (b.lane is null or (m.due, m.id) < (b.due, b.id))) as best,
         max(m.enqueued_at) as latest
    from messages m left join barriers b on b.lane = m.lane
   where m.lane is not null group by m.lane),
truth as (
  select l.id, coalesce(c.live, 0) as live, coalesce(c.carried, 0) as carried,
         coalesce(c.waiting, 0) as waiting, coalesce(c.backoff, 0) as backoff,
         coalesce(c.woken_0, 0) as woken_0, coalesce(c.woken_1, 0) as woken_1,
         coalesce(c.woken_2, 0) as woken_2, coalesce(c.woken_3, 0) as woken_3,
         b.due as barrier_due, b.id as barrier_id, c.latest,
         -- The priority with which it is ready; null if it is not.
         case when l.epoch is null and l.park_reason is null then c.best end as ready
    from lanes l left join counted c on c.lane = l.id left join barriers b on b.lane = l.id)
