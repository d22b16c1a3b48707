-- Return the questions about a message that may have left: each link by which it may, with the frame.
-- is: stable
CREATE OR REPLACE FUNCTION {schema}.link_trace_requests(its_id text, of_space text)
RETURNS TABLE (link text, definition text, peer uuid, frame bytea)
AS $function$
DECLARE
    most_links CONSTANT integer := 10;
    own uuid := (SELECT known.box_id FROM {schema}.box_identity AS known);
BEGIN
    RETURN QUERY SELECT one.link, one.definition::text, one.peer, {schema}.link_frame(
        5, one.peer, 0, 1, 0, 0, uuid_send(asked.home) || int4send(octet_length(convert_to(its_id, 'UTF8')))
            || int4send(
                octet_length(convert_to(asked.space, 'UTF8'))
            ) || convert_to(its_id, 'UTF8') || convert_to(asked.space, 'UTF8')
    )
    FROM {schema}.message_ids AS known
    CROSS JOIN LATERAL (
        SELECT CASE WHEN known.id_space ^@ 'link:' THEN substr(known.id_space, 6, 36)::uuid ELSE own END AS home,
            CASE WHEN known.id_space ^@ 'link:' THEN substr(known.id_space, 43) ELSE known.id_space END AS space
    ) AS asked
    CROSS JOIN {schema}.known_links AS one
    WHERE known.message_id = its_id AND (of_space IS NULL OR known.id_space = of_space)
        AND one.definition IS NOT NULL AND one.peer IS NOT NULL
        AND EXISTS (SELECT FROM {schema}.queues AS place WHERE place.definition ->> 'at' = one.link)
    ORDER BY known.id_space, one.link LIMIT most_links;
END
$function$;
