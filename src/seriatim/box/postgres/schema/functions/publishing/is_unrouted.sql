-- Return whether messages wait to be routed; NULL: they do, and the caller may not route them. `settled`,
-- `unsettled`: where to look.
-- is: stable, definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.is_unrouted(settled xid8, unsettled xid8[]) RETURNS boolean
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    IF NOT {schema}.is_left(settled, unsettled) THEN
        RETURN FALSE;
    END IF;
    RETURN CASE WHEN {schema}.may_route() THEN TRUE END;
END
$function$;
