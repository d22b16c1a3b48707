-- Return the sizes of the bodies of messages in hand, in their order, and the bodies: those of at most `largest` bytes, as
-- long as all before have at most `most` bytes with it, or it is the first.
-- is: stable, definer, generic plan, no seqscan, no bitmapscan, no hashjoin, no mergejoin
CREATE OR REPLACE FUNCTION {schema}.bodies_of(of_queue integer, of_entries bigint[], largest integer, most bigint)
RETURNS TABLE (size integer, body bytea)
AS $function$
BEGIN
    PERFORM {schema}.permit_entries('receive', of_queue, of_entries);
    RETURN QUERY
    SELECT one.size, CASE WHEN one.size <= largest AND (one.at = 1 OR one.together <= most) THEN one.whole END
    FROM (
        SELECT
            handed.at, octet_length(stored.body) AS size, stored.body AS whole,
            sum(octet_length(stored.body)) OVER (ORDER BY handed.at) AS together
        FROM unnest(of_entries) WITH ORDINALITY AS handed (entry_id, at)
        JOIN {schema}.entries AS entry ON entry.entry_id = ANY (ARRAY[handed.entry_id])
        JOIN {schema}.spool AS stored
            ON stored.arrival_id = ANY (ARRAY[entry.arrival_id]) AND stored.position = ANY (ARRAY[entry.position])
    ) AS one
    ORDER BY one.at;
END
$function$;
