-- Return from when on a hole stands still that is open since `since`, both in microseconds: from its time-out on, or
-- without one after STANDS_AFTER_S of `kernel/groups/states.py`. NULL: no clock runs.
-- is: sql, immutable, parallel safe
CREATE OR REPLACE FUNCTION {schema}.stands_from(since bigint, hole_timeout text) RETURNS bigint
AS $function$
    SELECT nullif(since, {NEVER}) + (coalesce(hole_timeout::double precision, {STANDS_AFTER_S}) * 1000000)::bigint
$function$;
