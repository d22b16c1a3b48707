-- Return whether handed out messages of a group are still so. Not if that was rolled back, with the transaction or to
-- a savepoint: then the group's ordinal is the former one, or another process has the group.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.is_in_hand(
    of_queue integer, of_group text, entry_ids bigint[], ordinals bigint[]
) RETURNS boolean
AS $function$
BEGIN
    PERFORM {schema}.permit_entries('receive', of_queue, entry_ids);
    RETURN of_group IS NULL OR pg_try_advisory_xact_lock({schema}.group_lock(of_queue, of_group)) AND EXISTS (
        SELECT FROM {schema}.known_groups AS known
        WHERE known.queue_id = of_queue AND known.group_key = of_group
            AND known.ordinal >= (SELECT coalesce(max(ordinal), 0) FROM unnest(ordinals) AS ordinal)
    );
END
$function$;
