-- Return the transactions in which to look for messages published through SQL: from `settled` on, and those that are
-- `unsettled`. All messages that wait at any later moment are in them. So a look doesn't read messages that were
-- routed before, which stay there until they are vacuumed, or as long as a transaction is held open. `took_us`: the
-- time of this look.
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
    -- One statement: rows that it doesn't see belong to a transaction that hadn't ended in that snapshot.
    SELECT min(one.transaction) AS waiting, pg_current_snapshot() AS snapshot INTO seen FROM {schema}.to_route AS one;
    -- A snapshot doesn't count its own transaction among the running ones.
    running := ARRAY(SELECT pg_snapshot_xip(seen.snapshot)) || pg_current_xact_id_if_assigned();
    following := pg_snapshot_xmax(seen.snapshot)::text::bigint;
    -- Recent transactions are no list: from the first of them on.
    settled := least(seen.waiting, pg_snapshot_xmax(seen.snapshot), (
        SELECT min(one) FROM unnest(running) AS one WHERE one::text::bigint >= following - 1000
    ));
    unsettled := ARRAY(SELECT one FROM unnest(running) AS one WHERE one < settled);
    took_us := {schema}.now_us() - began;
END
$function$;
