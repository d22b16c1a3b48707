-- Let a role call the functions that check its rights themselves, and read the catalogue of dialogs as far as it has
-- rights; with a right of operators also the views of its queues.
CREATE OR REPLACE FUNCTION {schema}.let_in(who regrole) RETURNS void
AS $function$
DECLARE
    door regprocedure;
    seen regclass;
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA %s TO %s', '{schema}'::regnamespace, who);
    FOR door IN
        SELECT oid FROM pg_proc
        WHERE pronamespace = '{schema}'::regnamespace AND prosecdef AND prorettype <> 'trigger'::regtype
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', door, who);
    END LOOP;
    EXECUTE format(
        'GRANT SELECT ON {schema}.message_types, {schema}.contracts, {schema}.services, {schema}.links, {schema}.link_streams, '
        '{schema}.transmission TO %s', who
    );
    IF NOT EXISTS (SELECT FROM {schema}.grants WHERE role = who AND may = ANY ({schema}.giving('see'))) THEN
        RETURN;
    END IF;
    FOR seen IN
        SELECT oid FROM pg_class
        WHERE relnamespace = '{schema}'::regnamespace AND relkind = 'v' AND starts_with(relname, 'seen_')
    LOOP
        EXECUTE format('GRANT SELECT ON %s TO %s', seen, who);
    END LOOP;
    -- The functions of looks: they run as the role itself, and so read no more than it may.
    FOR door IN
        SELECT oid FROM pg_proc
        WHERE pronamespace = '{schema}'::regnamespace AND NOT prosecdef
            AND (provolatile = 'i' OR proname IN ('group_lock', 'lock_of', 'now_us'))
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', door, who);
    END LOOP;
END
$function$;
