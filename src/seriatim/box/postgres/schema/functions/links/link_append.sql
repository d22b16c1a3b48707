-- Append messages to their open streams, in this order. Return how many. `marks`: the message is sent again.
-- `parted`: it has parts.
-- is: generic plan, no seqscan
CREATE OR REPLACE FUNCTION {schema}.link_append(
    streams uuid[], message_ids text[], headers bytea[], marks boolean[], entered timestamptz[], arrival_ids bigint[],
    positions integer[],
    parted boolean[]
) RETURNS bigint
AS $function$
DECLARE
    large CONSTANT bigint := 1048576;
    joined oid[] := array_fill(NULL::oid, ARRAY[cardinality(streams)]);
    appended bigint;
    large_one record;
    read record;
BEGIN
    IF TRUE = ANY (parted) THEN
        FOR large_one IN
            SELECT told.nth, told.arrival_id, told.position
            FROM unnest(arrival_ids, positions, parted) WITH ORDINALITY AS told (arrival_id, position, has_parts, nth)
            WHERE told.has_parts AND {schema}.link_joined_size(told.arrival_id, told.position) > large
        LOOP
            joined[large_one.nth] := {schema}.link_joined(large_one.arrival_id, large_one.position);
        END LOOP;
    END IF;
    -- A separate statement: its memory is freed before bodies are stored.
    SELECT array_agg(each.digest ORDER BY each.nth) AS digests, array_agg(each.size ORDER BY each.nth) AS sizes
    INTO read
    FROM (
        SELECT told.nth,
            sha256(
                int4send(octet_length(told.header)) || told.header || CASE
                    WHEN told.whole IS NULL THEN stored.body
                    ELSE lo_get(told.whole)
                END
            ) AS digest,
            CASE
                WHEN told.whole IS NULL THEN octet_length(stored.body)
                ELSE {schema}.link_joined_size(told.arrival_id, told.position)
            END AS size
        FROM unnest(headers, arrival_ids, positions, joined) WITH ORDINALITY AS told (
            header, arrival_id, position, whole, nth
        )
        CROSS JOIN LATERAL (
            SELECT CASE
                WHEN told.whole IS NULL THEN {schema}.link_body(told.arrival_id, told.position)
            END AS body OFFSET 0
        ) AS stored
    ) AS each;
    WITH given AS MATERIALIZED (
        SELECT told.stream_id, told.message_id, told.header, told.replayed, told.entered_at, told.arrival_id,
            told.position, told.whole, told.nth,
            told.digest, told.size,
            dense_rank() OVER (ORDER BY told.stream_id) AS stream,
            row_number() OVER (PARTITION BY told.stream_id ORDER BY told.nth) AS place,
            row_number() OVER (ORDER BY told.stream_id, told.nth) AS at
        FROM unnest(
            streams, message_ids, headers, marks, entered, arrival_ids, positions, joined, read.digests, read.sizes
        )
            WITH ORDINALITY AS told (
                stream_id, message_id, header, replayed, entered_at, arrival_id, position, whole, digest, size, nth
            )
    ), chains AS MATERIALIZED (
        SELECT {schema}.link_chains(
            array_agg(given.stream ORDER BY given.at), array_agg(known.sent_chain ORDER BY given.at),
            array_agg(given.message_id ORDER BY given.at), array_agg(given.digest ORDER BY given.at)
        ) AS every
        -- Looked up, here and below, see `decide`.
        FROM given JOIN {schema}.link_streams_out AS known ON known.stream_id = ANY (ARRAY[given.stream_id])
    ), chained AS MATERIALIZED (
        SELECT given.stream_id, given.message_id, given.digest, given.nth, known.sent + given.place AS number, one.chain
        FROM chains CROSS JOIN LATERAL unnest(chains.every) WITH ORDINALITY AS one (chain, at)
        JOIN given ON given.at = one.at
        JOIN {schema}.link_streams_out AS known ON known.stream_id = ANY (ARRAY[given.stream_id])
    ), stored AS (
        INSERT INTO {schema}.link_messages (
            stream_id, number, message_id, header, body, digest, chain, replayed, entered_at
        )
        SELECT one.stream_id, one.number, one.message_id, one.header,
            CASE
                WHEN one.whole IS NULL THEN substring({schema}.link_body(one.arrival_id, one.position), 1)
                ELSE lo_get(one.whole)
            END,
            one.digest, one.chain, one.replayed, one.entered_at
        FROM (
            SELECT chained.*, given.header, given.replayed, given.entered_at, given.arrival_id, given.position,
                given.whole
            FROM chained JOIN given USING (nth) ORDER BY nth OFFSET 0
        ) AS one
        RETURNING 1
    ), moved AS (
        UPDATE {schema}.link_streams_out AS known SET
            sent = last.number, sent_chain = last.chain, last_used = clock_timestamp(),
            ahead_bytes = known.ahead_bytes + last.bytes
        FROM (
            SELECT DISTINCT ON (chained.stream_id) chained.stream_id, chained.number, chained.chain,
                sum(octet_length(given.header) + given.size) OVER (PARTITION BY chained.stream_id) AS bytes
            FROM chained JOIN given USING (nth) ORDER BY chained.stream_id, chained.number DESC
        ) AS last
        WHERE known.stream_id = ANY (ARRAY[last.stream_id])
    )
    SELECT count(*) INTO appended FROM stored;
    IF TRUE = ANY (parted) THEN
        PERFORM lo_unlink(each.whole) FROM unnest(joined) AS each (whole) WHERE each.whole IS NOT NULL;
    END IF;
    RETURN appended;
END
$function$;
