-- Put back messages of a transaction that was committed without completing them. Another process may have had the
-- group since: this waits for the group's lock, and leaves messages that have been done or judged anew.
-- is: definer, no seqscan, lock timeout 10s
CREATE OR REPLACE FUNCTION {schema}.put_back_committed(
    of_queue integer, of_group text, entry_ids bigint[], ordinals bigint[], lates boolean[]
) RETURNS void
AS $function$
DECLARE
    kept bigint[];
BEGIN
    PERFORM {schema}.permit_entries('receive', of_queue, entry_ids);
    PERFORM pg_advisory_xact_lock({schema}.group_lock(of_queue, of_group));
    SELECT array_agg(entry.entry_id) INTO kept
    FROM unnest(entry_ids, ordinals) AS handed (entry_id, ordinal)
    JOIN {schema}.entries AS entry ON entry.entry_id = ANY (ARRAY[handed.entry_id])
    WHERE entry.status IN ('arrived', 'placed', 'queued') AND coalesce(entry.ordinal, handed.ordinal) = handed.ordinal;
    PERFORM {schema}.put_back(
        of_queue, of_group,
        array_agg(handed.entry_id), array_agg(handed.ordinal), array_agg(handed.late)
    )
    FROM unnest(entry_ids, ordinals, lates) AS handed (entry_id, ordinal, late)
    WHERE handed.entry_id = ANY (kept)
    HAVING count(*) > 0;
END
$function$;
