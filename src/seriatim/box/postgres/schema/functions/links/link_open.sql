-- Open streams for keys that have none. Numbers continue above all that this box or the other one has known.
-- is: generic plan
CREATE OR REPLACE FUNCTION {schema}.link_open(
    of_link integer, of_queues integer[], destinations text[], keys text[]
) RETURNS void
AS $function$
DECLARE
    own bigint := (SELECT known.incarnation FROM {schema}.box_identity AS known);
    opened bigint;
BEGIN
    INSERT INTO {schema}.link_numbers (link_id, is_ours, incarnation, begins) VALUES (of_link, TRUE, own, '')
    ON CONFLICT DO NOTHING;
    SELECT known.highest INTO opened FROM {schema}.link_numbers AS known
    WHERE known.link_id = of_link AND known.is_ours AND known.incarnation = own;
    WITH fresh AS (
        INSERT INTO {schema}.link_streams_out (
            stream_id, link_id, incarnation, number, queue_id, destination, key, chain, sent_chain, kept_chain
        )
        SELECT made.stream_id, of_link, own, opened + made.nth, made.queue_id, made.destination, made.key, made.begins,
            made.begins, made.begins
        FROM (
            SELECT told.*, ident.stream_id, sha256('seriatim stream'::bytea || uuid_send(ident.stream_id)) AS begins
            FROM unnest(of_queues, destinations, keys) WITH ORDINALITY AS told (queue_id, destination, key, nth)
            CROSS JOIN LATERAL (SELECT gen_random_uuid() AS stream_id OFFSET 0 * told.nth) AS ident
        ) AS made
        RETURNING number, chain
    )
    UPDATE {schema}.link_numbers AS known SET highest = fresh.number, begins = fresh.chain
    FROM fresh WHERE known.link_id = of_link AND known.is_ours AND known.incarnation = own
        AND fresh.number = opened + cardinality(keys);
END
$function$;
