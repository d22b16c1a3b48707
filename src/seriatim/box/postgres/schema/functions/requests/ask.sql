-- Record a request that this transaction has published, and return its id, the type of the replies, until when it is open, and
-- its correlation. `is_new`: FALSE, if the message was published before: then return the request that it was; NULL, if that
-- isn't open any more, or isn't the caller's.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.ask(
    request text, of_message text, of_type text, correlation text, keep interval, is_new boolean, of_asker text
) RETURNS text[]
AS $function$
BEGIN
    PERFORM {schema}.permit('publish', ARRAY[]::integer[]);
    IF is_new THEN
        INSERT INTO {schema}.open_requests (
            request_id, role, asker, message_id, id_space, reply_type, correlation_id, until
        ) VALUES (
            request, {schema}.caller(), of_asker, of_message, {schema}.id_space(), of_type, correlation,
            clock_timestamp() + keep
        );
    END IF;
    RETURN (
        SELECT ARRAY[asked.request_id, asked.reply_type, to_json(asked.until) #>> '{}', asked.correlation_id]
        FROM {schema}.open_requests AS asked
        WHERE asked.message_id = of_message AND asked.id_space = {schema}.id_space() AND asked.role = {schema}.caller()
            AND asked.asker = of_asker AND asked.until > clock_timestamp()
        ORDER BY asked.asked_at DESC LIMIT 1
    );
END
$function$;
