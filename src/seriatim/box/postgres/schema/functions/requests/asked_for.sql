-- Return the places, from 1, of the messages that are replies to open requests.
-- is: stable, definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.asked_for(correlations text[], types text[]) RETURNS bigint[]
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN ARRAY(
        SELECT one.place FROM unnest(correlations, types) WITH ORDINALITY AS one (correlation, type, place)
        JOIN {schema}.open_requests AS asked
            ON asked.request_id = ANY (ARRAY[one.correlation]) AND asked.reply_type = one.type
            AND asked.until > clock_timestamp()
    );
END
$function$;
