-- Record that a worker begins with messages on trial, the first of which is named. The caller commits before the
-- handler is called, while another transaction of its own has the group, or in a queue without groups the message.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.begin_attempt(
    of_queue integer, of_group text, of_entry bigint, of_worker text
) RETURNS bigint
AS $function$
DECLARE
    made bigint;
BEGIN
    PERFORM {schema}.permit_entries('receive', of_queue, ARRAY[of_entry]);
    INSERT INTO {schema}.trials AS trial (queue_id, unit, group_key, entry_id, token, worker, server_began, times)
    VALUES (
        of_queue, coalesce(of_group, of_entry::text), of_group, of_entry, nextval('{schema}.fences'), of_worker,
        pg_postmaster_start_time(), 1
    )
    ON CONFLICT (queue_id, unit) DO UPDATE SET
        entry_id = excluded.entry_id, token = excluded.token, worker = excluded.worker,
        server_began = excluded.server_began,
        times = CASE WHEN trial.entry_id = excluded.entry_id THEN trial.times + 1 ELSE 1 END
    RETURNING trial.token INTO made;
    RETURN made;
END
$function$;
