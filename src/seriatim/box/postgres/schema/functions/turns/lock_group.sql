-- Lock a group that has something to do. It reads rows that are younger than the lock. A group without work is not
-- locked: for that the block releases the lock.
CREATE OR REPLACE FUNCTION {schema}.lock_group(of_queue integer, of_group text, now_us bigint) RETURNS boolean
AS $function$
BEGIN
    IF NOT pg_try_advisory_xact_lock({schema}.group_lock(of_queue, of_group)) THEN
        RETURN FALSE;
    END IF;
    IF NOT EXISTS (SELECT FROM {schema}.leases WHERE queue_id = of_queue AND group_key = of_group)
        AND {schema}.has_work(of_queue, of_group, now_us) THEN
        RETURN TRUE;
    END IF;
    RAISE EXCEPTION 'nothing to do' USING ERRCODE = 'SQ001';
EXCEPTION WHEN SQLSTATE 'SQ001' THEN
    RETURN FALSE;
END
$function$;
