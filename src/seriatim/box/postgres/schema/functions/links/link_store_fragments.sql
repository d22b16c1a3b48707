-- Store the body and the parts of a message whose fragments have all come. They are put together in a large object
-- that is gone with the transaction; an aggregate would hold the body twice before it is stored, and its row once
-- more.
-- is: no seqscan
CREATE OR REPLACE FUNCTION {schema}.link_store_fragments(
    arrived bigint, of_link integer, of_incarnation bigint, of_number bigint, its_header bytea, its_size bigint
) RETURNS void
AS $function$
DECLARE
    whole oid := lo_create(0);
    at bigint := 0;
    piece record;
    in_parts bigint := (
        SELECT coalesce(sum((part ->> 'size')::bigint), 0)
        FROM jsonb_array_elements(convert_from(its_header, 'UTF8')::jsonb -> 'parts') AS part
    );
BEGIN
    FOR piece IN
        SELECT one.body FROM {schema}.link_fragments AS one
        WHERE one.link_id = of_link AND one.incarnation = of_incarnation AND one.number = of_number
        ORDER BY one.fragment
    LOOP
        PERFORM lo_put(whole, at, piece.body);
        at := at + octet_length(piece.body);
    END LOOP;
    at := its_size - in_parts;
    UPDATE {schema}.spool AS stored SET body = lo_get(whole, 0, at::integer)
    WHERE stored.arrival_id = arrived AND stored.position = 0;
    FOR piece IN
        SELECT (one.part ->> 'size')::integer AS size, one.number
        FROM jsonb_array_elements(
            convert_from(its_header, 'UTF8')::jsonb -> 'parts'
        ) WITH ORDINALITY AS one (part, number) ORDER BY one.number
    LOOP
        UPDATE {schema}.message_parts AS stored SET body = lo_get(whole, at, piece.size)
        WHERE stored.arrival_id = arrived AND stored.position = 0 AND stored.number = piece.number;
        at := at + piece.size;
    END LOOP;
    PERFORM lo_unlink(whole);
END
$function$;
