-- Complete the messages of a delivery through a position, NULL: all of them; in the caller's transaction. The same call
-- again returns the same answer. docs/how-to/receive-from-sql.md describes it. `holder`, `said`, `answer`: of a server
-- that has several callers, and of the results that it has published.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.complete(
    delivery uuid, through integer DEFAULT NULL, holder text DEFAULT '', said text DEFAULT '', answer jsonb DEFAULT '{}'
) RETURNS jsonb
AS $function$
DECLARE
    lease record := {schema}.at_lease(delivery, holder, 'complete', through, said);
BEGIN
    IF lease.answer IS NOT NULL THEN
        RETURN lease.answer;
    END IF;
    PERFORM {schema}.settle_through(
        lease.queue_id, lease.token, lease.incarnation, lease.entry_ids, lease.ordinals, lease.lates, lease.done, lease.at
    );
    RETURN {schema}.note_answer(
        delivery, holder, 'complete', lease.at, said, answer, lease.at, lease.at = cardinality(lease.entry_ids)
    );
END
$function$;
