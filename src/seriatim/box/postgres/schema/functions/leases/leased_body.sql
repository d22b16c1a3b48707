-- Return a part of the body of a message of a lease, from a byte on, and the size of the whole; no row for a message
-- that is done.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.leased_body(
    of_lease uuid, of_holder text, at integer, from_byte integer, how_many integer,
    OUT part_body bytea, OUT size integer, OUT content_type text
) RETURNS SETOF record
AS $function$
#variable_conflict use_column
DECLARE
    one record := {schema}.at_lease(of_lease, of_holder, 'read', leased_body.at, '');
BEGIN
    RETURN QUERY SELECT
        substring(whole.body FROM from_byte FOR how_many), octet_length(whole.body), stored.content_type
    FROM {schema}.entries AS entry
    JOIN {schema}.spool AS stored ON stored.arrival_id = entry.arrival_id AND stored.position = entry.position
    CROSS JOIN LATERAL (SELECT coalesce((
        SELECT edit.body FROM {schema}.edited(one.queue_id, ARRAY[entry.entry_id]) AS edit
    ), stored.body) AS body) AS whole
    WHERE leased_body.at > one.done AND entry.entry_id = one.entry_ids[leased_body.at];
END
$function$;
