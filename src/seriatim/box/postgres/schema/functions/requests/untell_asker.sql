-- Forget of which requests the message was set aside: it isn't any more, and may be once again.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.untell_asker() RETURNS trigger
AS $function$
BEGIN
    IF EXISTS (SELECT FROM {schema}.open_requests) THEN
        DELETE FROM {schema}.replies AS told USING gone
        WHERE told.arrival_id = ANY (ARRAY[gone.arrival_id]) AND told.position = ANY (ARRAY[gone.position])
            AND told.entry_id = gone.entry_id;
    END IF;
    RETURN NULL;
END
$function$;
