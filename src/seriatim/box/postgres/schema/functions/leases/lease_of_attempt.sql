-- Return the lease that an attempt of the caller got before; NULL: none.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.lease_of_attempt(of_queue integer, of_holder text, of_attempt text) RETURNS uuid
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    RETURN (
        SELECT delivery_id FROM {schema}.deliveries
        WHERE queue_id = of_queue AND role = {schema}.caller() AND holder = of_holder AND attempt_id = of_attempt
    );
END
$function$;
