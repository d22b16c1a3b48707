-- Return whether a transaction in a row (`xmax`) has been rolled back, or ended with its server. A row keeps the
-- lower half of its number.
CREATE OR REPLACE FUNCTION {schema}.was_rolled_back(locker xid) RETURNS boolean
AS $function$
DECLARE
    following bigint;
    whole bigint;
BEGIN
    IF locker = '0' THEN
        RETURN FALSE;
    END IF;
    following := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
    whole := following - ((following - locker::text::bigint) & 4294967295);
    IF whole NOT BETWEEN 3 AND following - 1 THEN
        RETURN FALSE;
    END IF;
    RETURN coalesce(pg_xact_status(whole::text::xid8) = 'aborted', FALSE);
END
$function$;
