-- Move a side's queued messages before those of others in its group. Return how many there are. The caller has the
-- lock of the group, and all of it is judged.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.put_first(of_handle uuid) RETURNS bigint
AS $function$
DECLARE
    own record;
    messages bigint;
BEGIN
    SELECT known.queue_id, known.group_id INTO own FROM {schema}.endpoints AS known WHERE known.handle = of_handle;
    PERFORM {schema}.permit('receive', ARRAY[coalesce(own.queue_id, 0)]);
    WITH line AS (
        SELECT entry.entry_id, entry.ordinal, stored.context -> 'dialog' ->> 'handle' = of_handle::text AS mine
        FROM {schema}.entries AS entry
        JOIN {schema}.spool AS stored
            ON stored.arrival_id = ANY (ARRAY[entry.arrival_id]) AND stored.position = ANY (ARRAY[entry.position])
        WHERE entry.queue_id = own.queue_id AND entry.group_key = own.group_id::text AND entry.status = 'queued'
    ), ordered AS (
        SELECT
            line.entry_id, line.ordinal, line.mine, first.ordinal AS becomes
        FROM (
            SELECT entry_id, ordinal, mine IS TRUE AS mine,
                row_number() OVER (ORDER BY (mine IS TRUE) DESC, ordinal) AS place FROM line
        ) AS line
        JOIN (SELECT ordinal, row_number() OVER (ORDER BY ordinal) AS place FROM line) AS first USING (place)
    ), moved AS (
        UPDATE {schema}.entries AS entry SET ordinal = ordered.becomes FROM ordered
        WHERE entry.entry_id = ANY (ARRAY[ordered.entry_id]) AND ordered.becomes <> ordered.ordinal
    )
    SELECT count(*) FILTER (WHERE ordered.mine) INTO messages FROM ordered;
    RETURN messages;
END
$function$;
