-- Record the next version of the definitions; each process that routes then reads them anew.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.record_change(changed text) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.permit('subscribe', ARRAY[]::integer[]);
    INSERT INTO {schema}.changes (version, what)
    SELECT max(version) + 1, left(coalesce(changed, ''), 10000) FROM {schema}.changes;
END
$function$;
