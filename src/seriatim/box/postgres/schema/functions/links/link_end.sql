-- End streams: their numbers never come back, and unacknowledged messages go on in new ones, marked as replayed. The
-- rows of the messages are moved unchanged: no body is read.
-- is: no seqscan
CREATE OR REPLACE FUNCTION {schema}.link_end(of_link integer, of_streams uuid[]) RETURNS void
AS $function$
DECLARE
    moved record;
BEGIN
    UPDATE {schema}.link_numbers AS known SET over = known.over + ended.numbers
    FROM (
        SELECT stream.incarnation, range_agg(int8range(stream.number, stream.number, '[]')) AS numbers
        FROM {schema}.link_streams_out AS stream WHERE stream.stream_id = ANY (of_streams) GROUP BY 1
    ) AS ended
    WHERE known.link_id = of_link AND known.is_ours AND known.incarnation = ended.incarnation;
    SELECT array_agg(one.stream_id ORDER BY one.number) AS ids,
        array_agg(one.queue_id ORDER BY one.number) AS queue_ids,
        array_agg(one.destination ORDER BY one.number) AS destinations, array_agg(one.key ORDER BY one.number) AS keys
    INTO moved
    FROM {schema}.link_streams_out AS one WHERE one.stream_id = ANY (of_streams) AND EXISTS (
        SELECT FROM {schema}.link_messages AS waiting
        WHERE waiting.stream_id = one.stream_id AND waiting.number > one.acked
    );
    IF moved.ids IS NOT NULL THEN
        -- Their keys are free for the new ones.
        UPDATE {schema}.link_streams_out SET queue_id = 0, key = stream_id::text WHERE stream_id = ANY (of_streams);
        PERFORM {schema}.link_open(of_link, moved.queue_ids, moved.destinations, moved.keys);
        WITH told AS MATERIALIZED (
            SELECT fresh.stream_id, fresh.chain AS begins, old.id AS old_id, waiting.number, waiting.message_id,
                waiting.digest,
                octet_length(waiting.header) + octet_length(waiting.body) AS bytes,
                dense_rank() OVER (ORDER BY fresh.number) AS stream,
                row_number() OVER (PARTITION BY fresh.number ORDER BY waiting.number) AS place,
                row_number() OVER (ORDER BY fresh.number, waiting.number) AS at
            FROM unnest(moved.ids, moved.queue_ids, moved.keys) AS old (id, queue_id, key)
            JOIN {schema}.link_streams_out AS fresh ON fresh.queue_id = old.queue_id AND fresh.key = old.key
            JOIN {schema}.link_streams_out AS ended ON ended.stream_id = old.id
            JOIN {schema}.link_messages AS waiting ON waiting.stream_id = old.id AND waiting.number > ended.acked
        ), chains AS MATERIALIZED (
            SELECT {schema}.link_chains(
                array_agg(told.stream ORDER BY told.at), array_agg(told.begins ORDER BY told.at),
                array_agg(told.message_id ORDER BY told.at),
                array_agg(told.digest ORDER BY told.at)
            ) AS every
            FROM told
        ), chained AS MATERIALIZED (
            SELECT told.*, one.chain FROM chains
            CROSS JOIN LATERAL unnest(chains.every) WITH ORDINALITY AS one (chain, at) JOIN told ON told.at = one.at
        ), renumbered AS (
            UPDATE {schema}.link_messages AS waiting SET
                stream_id = chained.stream_id, number = chained.place, chain = chained.chain, replayed = TRUE,
                acked_at = NULL
            FROM chained WHERE waiting.stream_id = chained.old_id AND waiting.number = chained.number
        )
        UPDATE {schema}.link_streams_out AS known SET
            sent = last.place, sent_chain = last.chain, last_used = clock_timestamp(), ahead_bytes = last.bytes
        FROM (
            SELECT DISTINCT ON (chained.stream_id) chained.stream_id, chained.place, chained.chain,
                sum(chained.bytes) OVER (PARTITION BY chained.stream_id) AS bytes
            FROM chained ORDER BY chained.stream_id, chained.place DESC
        ) AS last
        WHERE known.stream_id = last.stream_id;
    END IF;
    DELETE FROM {schema}.link_streams_out WHERE stream_id = ANY (of_streams);
END
$function$;
