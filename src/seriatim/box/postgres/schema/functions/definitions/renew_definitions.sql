-- Give the definitions a version that no process has read: in a new incarnation, the last changes may be lost, and others
-- would get their versions.
CREATE OR REPLACE FUNCTION {schema}.renew_definitions() RETURNS void
AS $function$
BEGIN
    INSERT INTO {schema}.changes (version, what)
    SELECT greatest(max(version) + 1, (1000000 * extract(epoch FROM clock_timestamp()))::bigint), 'a new incarnation'
    FROM {schema}.changes;
END
$function$;
