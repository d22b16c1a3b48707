-- Complete the messages of a lease through a position; the other arguments are as `at_lease` has returned them. Refuse it
-- if the lease has run out since.
CREATE OR REPLACE FUNCTION {schema}.settle_through(
    of_queue integer, of_token bigint, of_incarnation integer, entry_ids bigint[], ordinals bigint[], lates boolean[],
    done integer, through integer
) RETURNS void
AS $function$
BEGIN
    IF through <= done THEN
        RETURN;
    ELSIF {schema}.settle_lease(of_queue, of_token, through - done, FALSE) IS NOT TRUE THEN
        RAISE EXCEPTION 'the lease is over' USING ERRCODE = 'SQ005', HINT = 'it ran out; nothing is changed';
    END IF;
    PERFORM {schema}.complete_entries(
        of_queue, entry_ids[done + 1:through], ordinals[done + 1:through], lates[done + 1:through], of_incarnation,
        (SELECT place.definition ->> 'keep' FROM {schema}.queues AS place WHERE place.queue_id = of_queue)
    );
END
$function$;
