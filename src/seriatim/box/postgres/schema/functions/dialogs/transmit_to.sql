-- Deliver the messages in the transmission queue for one queue, as `transmit_into` does; called by its receivers.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.transmit_to(of_queue integer) RETURNS bigint
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    RETURN {schema}.transmit_into(ARRAY[of_queue]);
END
$function$;
