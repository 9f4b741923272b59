-- The clock of a store that was made with a clock of its own, as tests do: time is what the caller
-- says, and never goes back.

create or replace function now_ms() returns bigint language plpgsql stable as $$
begin
  return coalesce(nullif(current_setting('strand.now', true), '')::bigint, (select time from store));
end $$;

create function begin_at(p_now bigint) returns void language plpgsql as $$
declare
  v_now bigint;
begin
  update store set time = p_now where time < p_now;
  select greatest(time, p_now) into v_now from store;
  perform set_config('strand.now', v_now::text, true);
end $$;
