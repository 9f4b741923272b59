-- The second half of a repair: lanes get the counts, barriers and turns that their messages give
-- them. The table lane_truth has come of check_lanes.sql. Not part of the schema.
update lanes l set
  live = t.live, carried = t.carried, waiting = t.waiting, backoff = t.backoff,
  woken_0 = t.woken_0, woken_1 = t.woken_1, woken_2 = t.woken_2, woken_3 = t.woken_3,
  barrier_due = t.barrier_due, barrier_id = t.barrier_id,
  isolate_next = l.isolate_next and t.live > 0,
  last_time = greatest(l.last_time, t.latest),
  turn = case when t.ready is not null then coalesce(l.turn, nextval('numbers')) end,
  ready_since = case when t.ready is not null then coalesce(l.ready_since, now_ms()) end,
  priority = coalesce(t.ready, l.priority)
  from lane_truth t
 where t.id = l.id
   and ((l.live, l.carried, l.waiting, l.backoff, l.woken_0, l.woken_1, l.woken_2, l.woken_3)
        <> (t.live, t.carried, t.waiting, t.backoff, t.woken_0, t.woken_1, t.woken_2, t.woken_3)
        or l.barrier_id is distinct from t.barrier_id
        or l.barrier_due is distinct from t.barrier_due
        or (l.isolate_next and t.live = 0) or l.last_time < t.latest
        or (l.turn is null) <> (t.ready is null) or (l.turn is not null and l.priority <> t.ready)
        or (l.turn is null) <> (l.ready_since is null));
update lanes set hint_owner = null, hint_until = null, hint_grace = null
 where (hint_owner is null) <> (hint_until is null) or (hint_owner is null) <> (hint_grace is null);
update lanes l set label = i.label from instances i
 where i.queue = l.queue and i.key = l.key and i.outcome is null and i.label <> l.label;
delete from lanes where live = 0 and epoch is null and park_reason is null and hint_owner is null;
