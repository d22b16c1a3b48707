-- Deliver the messages in the transmission queue, as `transmit_into` does, for all queues.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.transmit() RETURNS bigint
AS $function$
BEGIN
    PERFORM {schema}.permit('route', ARRAY[]::integer[]);
    RETURN {schema}.transmit_into(NULL);
END
$function$;
