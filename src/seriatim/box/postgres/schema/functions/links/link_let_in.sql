-- Allow a role to speak as another box: it may call two doors, and the third one if that is granted, and nothing
-- else.
CREATE OR REPLACE FUNCTION {schema}.link_let_in(who regrole) RETURNS void
AS $function$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA %s TO %s', '{schema}'::regnamespace, who);
    EXECUTE format(
        'GRANT EXECUTE ON FUNCTION %s, %s TO %s', '{schema}.link_push(bytea)'::regprocedure,
        '{schema}.link_fetch(bytea)'::regprocedure, who
    );
    IF EXISTS (SELECT FROM {schema}.known_links WHERE role = who AND traces) THEN
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', '{schema}.link_trace(bytea)'::regprocedure, who);
    ELSIF NOT EXISTS (SELECT FROM {schema}.grants WHERE role = who) THEN
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM %s', '{schema}.link_trace(bytea)'::regprocedure, who);
    END IF;
END
$function$;
