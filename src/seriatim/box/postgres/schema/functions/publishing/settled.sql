-- What was published through SQL is looked for in the transactions from `settled` on and in those that are `unsettled`:
-- whatever waits at any moment after this is there. So who looks doesn't read what was routed before, which stands
-- there until it is vacuumed, or as long as a transaction is held open. `took_us`: how long it took to find that.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.settled(OUT settled xid8, OUT unsettled xid8[], OUT took_us bigint)
AS $function$
DECLARE
    began bigint := {schema}.now_us();
    seen record;
    running xid8[];
    following bigint;
BEGIN
    PERFORM {schema}.permit_anything();
    -- One statement: what it doesn't see is of a transaction that hadn't ended in that snapshot.
    SELECT min(one.transaction) AS waiting, pg_current_snapshot() AS snapshot INTO seen FROM {schema}.to_route AS one;
    -- A snapshot doesn't count the transaction itself among those that run.
    running := ARRAY(SELECT pg_snapshot_xip(seen.snapshot)) || pg_current_xact_id_if_assigned();
    following := pg_snapshot_xmax(seen.snapshot)::text::bigint;
    -- Those that have begun lately are no list: from the first of them on.
    settled := least(seen.waiting, pg_snapshot_xmax(seen.snapshot), (
        SELECT min(one) FROM unnest(running) AS one WHERE one::text::bigint >= following - 1000
    ));
    unsettled := ARRAY(SELECT one FROM unnest(running) AS one WHERE one < settled);
    took_us := {schema}.now_us() - began;
END
$function$;
