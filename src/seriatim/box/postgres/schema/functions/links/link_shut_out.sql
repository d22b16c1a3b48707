-- Revoke what `link_let_in` granted a role, unless it speaks as another box, too; its other rights in the box stay.
CREATE OR REPLACE FUNCTION {schema}.link_shut_out(who regrole) RETURNS void
AS $function$
BEGIN
    IF EXISTS (SELECT FROM {schema}.known_links WHERE role = who) OR NOT EXISTS (SELECT FROM pg_roles WHERE oid = who) THEN
        RETURN;
    END IF;
    IF NOT EXISTS (SELECT FROM {schema}.grants WHERE role = who) THEN
        EXECUTE format(
            'REVOKE EXECUTE ON FUNCTION %s, %s, %s FROM %s', '{schema}.link_push(bytea)'::regprocedure,
            '{schema}.link_fetch(bytea)'::regprocedure,
            '{schema}.link_trace(bytea)'::regprocedure, who
        );
        EXECUTE format('REVOKE USAGE ON SCHEMA %s FROM %s', '{schema}'::regnamespace, who);
    END IF;
END
$function$;
