-- Let a role call what it needs, and nothing else. A role with a right, or the server of a token, calls the functions that check
-- rights themselves, and reads the catalogue of dialogs as far as it has rights; with a right of operators also the views of
-- its queues. A role that speaks as another box calls the doors of links.
CREATE OR REPLACE FUNCTION {schema}.set_access(who regrole) RETURNS void
AS $function$
DECLARE
    has_rights boolean := EXISTS (
        SELECT FROM {schema}.grants WHERE role = who UNION ALL SELECT FROM {schema}.tokens WHERE server = who
    );
    link_doors text[] := (
        SELECT ARRAY['link_push', 'link_fetch'] || CASE WHEN traces THEN ARRAY['link_trace'] END
        FROM {schema}.known_links WHERE role = who
    );
    place pg_namespace;
    door regprocedure;
    seen regclass;
BEGIN
    SELECT * INTO place FROM pg_namespace WHERE oid = '{schema}'::regnamespace;
    IF NOT has_rights THEN
        -- Not of what another role has made in the schema: PostgreSQL would refuse all.
        EXECUTE (
            SELECT format('REVOKE ALL ON %s FROM %s', string_agg(one.oid::regclass::text, ', '), who)
            FROM pg_class AS one
            WHERE one.relnamespace = place.oid AND one.relowner = place.nspowner AND one.relkind IN ('r', 'p', 'v')
        );
        EXECUTE (
            SELECT format('REVOKE ALL ON FUNCTION %s FROM %s', string_agg(one.oid::regprocedure::text, ', '), who)
            FROM pg_proc AS one WHERE one.pronamespace = place.oid AND one.proowner = place.nspowner
        );
        EXECUTE format('REVOKE ALL ON SCHEMA %s FROM %s', '{schema}'::regnamespace, who);
        IF link_doors IS NULL THEN
            RETURN;
        END IF;
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA %s TO %s', '{schema}'::regnamespace, who);
    FOR door IN
        SELECT oid FROM pg_proc
        WHERE pronamespace = '{schema}'::regnamespace AND prosecdef AND prorettype <> 'trigger'::regtype
            AND (has_rights OR proname = ANY (link_doors))
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', door, who);
    END LOOP;
    IF NOT has_rights THEN
        RETURN;
    END IF;
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
