-- Return the policy in a queue's definition, as far as it can be read: its name, its start, its step, its time-out
-- and the number of its reports.
-- is: sql, immutable, parallel safe
CREATE OR REPLACE FUNCTION {schema}.policy_said(
    said jsonb, OUT name text, OUT start text, OUT increment bigint, OUT hole_timeout text, OUT hole_retries bigint
)
AS $function$
    SELECT
        said ->> 'name', said ->> 'start', {schema}.whole_number(said -> 'increment'), said ->> 'hole_timeout',
        {schema}.whole_number(said -> 'hole_retries')
$function$;
