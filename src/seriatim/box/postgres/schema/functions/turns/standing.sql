-- Return the fate of messages that were handed out by `handed`. `hand`: 'in progress' if this transaction has them in
-- hand, else 'committed' or 'aborted'. `is_left`: some of them aren't done. `is_put`: they were put back by `put`,
-- and that holds.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.standing(
    of_queue integer, of_group text, entry_ids bigint[], handed xid8, put xid8,
    OUT hand text, OUT is_left boolean, OUT is_put boolean
)
AS $function$
DECLARE
    is_ours boolean := TRUE;
BEGIN
    PERFORM {schema}.permit_entries('receive', of_queue, entry_ids);
    hand := coalesce(pg_xact_status(handed), 'aborted');
    is_left := EXISTS (SELECT FROM {schema}.entries WHERE entry_id = ANY (entry_ids));
    is_put := put IS NOT NULL AND coalesce(pg_xact_status(put), 'aborted') <> 'aborted';
    IF hand = 'in progress' THEN
        -- A prepared transaction is in progress, too, and keeps its locks: then it isn't this one.
        IF of_group IS NOT NULL THEN
            is_ours := pg_try_advisory_xact_lock({schema}.group_lock(of_queue, of_group));
        ELSIF is_left THEN
            PERFORM FROM {schema}.entries WHERE entry_id = ANY (entry_ids) FOR NO KEY UPDATE SKIP LOCKED;
            is_ours := FOUND;
        END IF;
        IF NOT is_ours THEN
            hand := 'aborted';
        END IF;
    END IF;
END
$function$;
