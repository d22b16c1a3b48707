-- Return from when on a hole stands still that is open since `opened`: from its time-out on, or else after a moment.
-- is: sql, stable, parallel safe
CREATE OR REPLACE FUNCTION {schema}.stands_from(opened timestamptz, hole_timeout text) RETURNS timestamptz
AS $function$
    SELECT opened + make_interval(secs => coalesce(hole_timeout::double precision, {STANDS_AFTER_S}))
$function$;
