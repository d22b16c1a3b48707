-- Keep a group from all but the present turn, by a lease: so the process that ends that turn can count its attempt
-- before another one begins. NULL: the group is in a lease already.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.fence_group(
    of_queue integer, of_group text, of_entry bigint, of_worker text, period interval
) RETURNS bigint
AS $function$
DECLARE
    made bigint;
BEGIN
    PERFORM {schema}.permit_entries('receive', of_queue, ARRAY[of_entry]);
    INSERT INTO {schema}.leases AS lease (queue_id, group_key, entry_ids, worker, expires_at)
    VALUES (of_queue, of_group, ARRAY[of_entry], of_worker, clock_timestamp() + period)
    ON CONFLICT DO NOTHING
    RETURNING lease.token INTO made;
    RETURN made;
END
$function$;
