-- Append records of dialogs to their streams, in this order; streams that aren't there are opened.
-- is: generic plan, no seqscan
CREATE OR REPLACE FUNCTION {schema}.link_append_records(
    of_link integer, destinations text[], keys text[], message_ids text[], headers bytea[], bodies bytea[]
) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.link_open(of_link, array_agg(0), array_agg(fresh.destination), array_agg(fresh.key))
    FROM (
        SELECT DISTINCT told.destination, told.key FROM unnest(destinations, keys) AS told (destination, key)
        WHERE NOT EXISTS (
            SELECT FROM {schema}.link_streams_out AS stream WHERE stream.queue_id = 0 AND stream.key = told.key
        )
    ) AS fresh HAVING count(*) > 0;
    WITH given AS MATERIALIZED (
        SELECT told.*, stream.stream_id, stream.sent_chain,
            sha256(int4send(octet_length(told.header)) || told.header || told.body) AS digest,
            stream.sent + row_number() OVER (PARTITION BY stream.stream_id ORDER BY told.nth) AS number,
            dense_rank() OVER (ORDER BY stream.stream_id) AS stream,
            row_number() OVER (ORDER BY stream.stream_id, told.nth) AS at
        FROM unnest(keys, message_ids, headers, bodies) WITH ORDINALITY AS told (key, message_id, header, body, nth)
        JOIN {schema}.link_streams_out AS stream ON stream.queue_id = 0 AND stream.key = told.key
    ), chains AS MATERIALIZED (
        SELECT {schema}.link_chains(
            array_agg(given.stream ORDER BY given.at), array_agg(given.sent_chain ORDER BY given.at),
            array_agg(given.message_id ORDER BY given.at), array_agg(given.digest ORDER BY given.at)
        ) AS every FROM given
    ), stored AS (
        INSERT INTO {schema}.link_messages (stream_id, number, message_id, header, body, digest, chain)
        SELECT given.stream_id, given.number, given.message_id, given.header, given.body, given.digest, one.chain
        FROM chains CROSS JOIN LATERAL unnest(chains.every) WITH ORDINALITY AS one (chain, at)
        JOIN given ON given.at = one.at
        RETURNING stream_id, number, chain, octet_length(header) + octet_length(body) AS bytes
    )
    UPDATE {schema}.link_streams_out AS known SET
        sent = last.number, sent_chain = last.chain, last_used = clock_timestamp(),
        ahead_bytes = known.ahead_bytes + last.bytes
    FROM (
        SELECT DISTINCT ON (stored.stream_id) stored.stream_id, stored.number, stored.chain,
            sum(stored.bytes) OVER (PARTITION BY stored.stream_id) AS bytes
        FROM stored ORDER BY stored.stream_id, stored.number DESC
    ) AS last
    WHERE known.stream_id = last.stream_id;
END
$function$;
