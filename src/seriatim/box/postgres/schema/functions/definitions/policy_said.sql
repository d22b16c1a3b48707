-- What a queue's definition says of its policy, as far as that can be read: its name, where it starts, its step, its
-- time-out and how often it is reported.
-- is: sql, immutable, parallel safe
CREATE OR REPLACE FUNCTION {schema}.policy_said(
    said jsonb, OUT name text, OUT start text, OUT increment bigint, OUT hole_timeout text, OUT hole_retries bigint
)
AS $function$
    SELECT
        said ->> 'name', said ->> 'start', {schema}.whole_number(said -> 'increment'), said ->> 'hole_timeout',
        {schema}.whole_number(said -> 'hole_retries')
$function$;
