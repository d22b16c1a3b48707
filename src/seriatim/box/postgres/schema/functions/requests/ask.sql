-- Record a request that this transaction has published, and return it. `is_new`: FALSE, if the message was published
-- before: then return the request that it was, if it is still open, and the caller's.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.ask(
    request text, of_message text, of_type text, correlation text, keep interval, is_new boolean
) RETURNS SETOF {schema}.open_requests
AS $function$
BEGIN
    PERFORM {schema}.permit('publish', ARRAY[]::integer[]);
    IF is_new THEN
        INSERT INTO {schema}.open_requests (request_id, role, message_id, reply_type, correlation_id, until)
        VALUES (request, {schema}.caller(), of_message, of_type, correlation, clock_timestamp() + keep);
    END IF;
    RETURN QUERY
    SELECT * FROM {schema}.open_requests AS asked
    WHERE asked.message_id = of_message AND asked.role = {schema}.caller() AND asked.until > clock_timestamp()
    ORDER BY asked.asked_at DESC LIMIT 1;
END
$function$;
