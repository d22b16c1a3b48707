-- Note of which requests the message was set aside: who asked is told.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.tell_asker() RETURNS trigger
AS $function$
BEGIN
    IF EXISTS (SELECT FROM {schema}.open_requests) THEN
        INSERT INTO {schema}.replies (arrival_id, position, request_id, entry_id)
        SELECT gone.arrival_id, gone.position, asked.request_id, gone.entry_id
        FROM came AS gone
        JOIN {schema}.spool AS stored
            ON stored.arrival_id = ANY (ARRAY[gone.arrival_id]) AND stored.position = ANY (ARRAY[gone.position])
        JOIN {schema}.open_requests AS asked
            ON asked.request_id = ANY (ARRAY[stored.context ->> 'correlation_id'])
            AND asked.message_id = stored.message_id AND asked.until > clock_timestamp();
    END IF;
    RETURN NULL;
END
$function$;
