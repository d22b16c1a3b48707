-- Add groups to an operation that isn't begun.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.add_to_bulk(
    of_bulk bigint, of_queues integer[], of_groups text[], as_seen text[]
) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.permit('operate', of_queues);
    UPDATE {schema}.bulk_operations AS one SET groups = one.groups + cardinality(of_groups)
    WHERE one.bulk_id = of_bulk AND one.begun_at IS NULL AND one.ended_at IS NULL AND of_queues <@ one.queue_ids;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'operation % takes no more groups, or none of these queues', of_bulk
        USING ERRCODE = 'insufficient_privilege';
    END IF;
    INSERT INTO {schema}.bulk_groups (bulk_id, queue_id, group_key, seen)
    SELECT of_bulk, told.queue_id, told.group_key, told.seen
    FROM unnest(of_queues, of_groups, as_seen) AS told (queue_id, group_key, seen);
END
$function$;
