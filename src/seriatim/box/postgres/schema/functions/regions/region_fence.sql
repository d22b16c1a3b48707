-- Begin an incarnation of the other region: votes of its earlier ones don't count any more, and all messages here that
-- aren't over go to the end of the outbox, because it may lack them. Those that were there move behind the others of their
-- session, so that copying them makes no hole. Return the last row of the outbox.
-- is: own path, no seqscan
CREATE OR REPLACE FUNCTION {schema}.region_fence(of_name text, incarnation bigint) RETURNS bigint
AS $function$
DECLARE
    key constant bigint := {schema}.lock_of('region fence ' || of_name);
BEGIN
    PERFORM {schema}.take_lock(key, 'the regions ' || of_name);
    UPDATE {schema}.region_roles AS role
    SET fence = greatest(role.fence, region_fence.incarnation), refilled = region_fence.incarnation
    WHERE role.name = of_name AND role.refilled < region_fence.incarnation;
    IF FOUND THEN
        INSERT INTO {schema}.region_outbox (name, message_id, arrival_id, position, published_at)
        SELECT DISTINCT of_name, one.message_id, one.arrival_id, one.position, one.published_at
        FROM {schema}.region_queues AS regional
        JOIN {schema}.region_sessions AS known USING (queue_id)
        JOIN {schema}.region_numbers AS one ON one.queue_id = known.queue_id AND one.session = known.session
            AND one.number > coalesce(known.over_through, -9223372036854775808)
        WHERE regional.name = of_name AND NOT one.withdrawn
        ORDER BY one.arrival_id, one.position
        ON CONFLICT (name, message_id) DO UPDATE SET outbox_id = DEFAULT;
    END IF;
    RETURN (SELECT max(one.outbox_id) FROM {schema}.region_outbox AS one WHERE one.name = of_name);
END
$function$;
