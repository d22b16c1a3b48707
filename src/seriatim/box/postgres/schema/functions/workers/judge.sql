-- Note that a process judges this box; `backend`: the connection on which it listens, NULL: behind a pooler. Forget
-- those that haven't been seen for long. Return the queues that receivers in SQL asked for while nobody listened.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.judge(
    of_process uuid, its_name text, its_host text, its_pid integer, its_backend integer
) RETURNS integer[]
AS $function$
DECLARE
    asked integer[];
BEGIN
    PERFORM {schema}.permit('route', ARRAY[]::integer[]);
    INSERT INTO {schema}.judges AS known (process_id, role, name, host, pid, backend)
    VALUES (of_process, {schema}.caller(), its_name, its_host, its_pid, its_backend)
    ON CONFLICT (process_id) DO UPDATE SET seen_at = clock_timestamp(), backend = excluded.backend
    WHERE known.role = excluded.role;
    WITH taken AS (DELETE FROM {schema}.unjudged RETURNING queue_id)
    SELECT coalesce(array_agg(taken.queue_id), '{}') INTO asked FROM taken;
    DELETE FROM {schema}.judges AS known WHERE known.seen_at < clock_timestamp() - interval '1 hour';
    RETURN asked;
END
$function$;
