-- Return the places, from 1, of the requests for which nobody has to wait any more: they have so many replies, were set
-- aside, or are over.
-- is: stable, definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.answered(requests text[], counts bigint[]) RETURNS bigint[]
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN ARRAY(
        SELECT wanted.place
        FROM unnest(requests, counts) WITH ORDINALITY AS wanted (request_id, how_many, place)
        CROSS JOIN LATERAL (
            SELECT count(*) AS replies, coalesce(bool_or(one.entry_id > 0), FALSE) AS is_failed FROM {schema}.replies AS one
            WHERE one.request_id = ANY (ARRAY[wanted.request_id])
        ) AS kept
        WHERE kept.replies >= wanted.how_many OR kept.is_failed OR NOT EXISTS (
            SELECT FROM {schema}.open_requests AS asked
            WHERE asked.request_id = ANY (ARRAY[wanted.request_id]) AND asked.until > clock_timestamp()
        )
    );
END
$function$;
