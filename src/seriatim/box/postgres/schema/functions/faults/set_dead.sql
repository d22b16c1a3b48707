-- Set released messages aside as dead, and let the next turn of their group find the ready ones. The caller has the
-- lock of the group; `of_group` NULL: the queue has none.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.set_dead(
    of_queue integer, of_group text, of_entries bigint[], why text
) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.permit_entries('judge', of_queue, of_entries);
    WITH gone AS (
        DELETE FROM {schema}.entries AS entry
        WHERE entry.entry_id = ANY (of_entries) AND entry.queue_id = of_queue
            AND entry.group_key = coalesce(of_group, entry.group_key)
        RETURNING entry.*
    )
    {set_aside_dead(gone, ordinal)};
    INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
    SELECT queue_id, group_key, 'look', {schema}.now_us() FROM {schema}.known_groups
    WHERE queue_id = of_queue AND group_key = of_group;
END
$function$;
