-- Revoke what `let_in` granted.
CREATE OR REPLACE FUNCTION {schema}.shut_out(who regrole) RETURNS void
AS $function$
BEGIN
    EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA %s FROM %s', '{schema}'::regnamespace, who);
    EXECUTE format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA %s FROM %s', '{schema}'::regnamespace, who);
    EXECUTE format('REVOKE ALL ON SCHEMA %s FROM %s', '{schema}'::regnamespace, who);
END
$function$;
