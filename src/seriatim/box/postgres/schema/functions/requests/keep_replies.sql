-- Keep messages under the open requests whose replies they are, as one more destination. The arrays are those of `enter`.
-- is: no seqscan
CREATE OR REPLACE FUNCTION {schema}.keep_replies(arrival_ids bigint[], positions bigint[], problems text[]) RETURNS void
AS $function$
BEGIN
    WITH kept AS (
        INSERT INTO {schema}.replies (arrival_id, position, request_id)
        SELECT message.arrival_id, message.position, asked.request_id
        FROM unnest(arrival_ids, positions, problems) AS message (arrival_id, position, problem)
        JOIN {schema}.spool AS stored
            ON stored.arrival_id = ANY (ARRAY[message.arrival_id]) AND stored.position = ANY (ARRAY[message.position])
        JOIN {schema}.open_requests AS asked
            ON asked.request_id = ANY (ARRAY[stored.context ->> 'correlation_id'])
            AND asked.reply_type = stored.type AND asked.until > clock_timestamp()
        WHERE message.problem IS NULL
        ON CONFLICT DO NOTHING
        RETURNING arrival_id, position
    )
    UPDATE {schema}.spool AS stored SET destinations = destinations + 1 FROM kept
    WHERE stored.arrival_id = ANY (ARRAY[kept.arrival_id]) AND stored.position = ANY (ARRAY[kept.position]);
END
$function$;
