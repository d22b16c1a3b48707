-- Forget a port that no process holds, with the positions of its partitions. Return how many it had; NULL: one is held.
CREATE OR REPLACE FUNCTION {schema}.forget_port(of_port text) RETURNS bigint
AS $function$
DECLARE
    forgotten bigint;
BEGIN
    IF EXISTS (SELECT FROM {schema}.ports WHERE port = of_port AND expires_at > clock_timestamp()) THEN
        RETURN NULL;
    END IF;
    DELETE FROM {schema}.ports WHERE port = of_port;
    GET DIAGNOSTICS forgotten = ROW_COUNT;
    RETURN forgotten;
END
$function$;
