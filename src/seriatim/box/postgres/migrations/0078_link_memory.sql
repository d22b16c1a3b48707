-- A large body is in the memory of a backend twice at most on its way over a link, and thrice where PostgreSQL compresses it; a frame has 3 MB in place of 16.

-- Put messages of the spool behind the last ones of their open streams, in this order. A stream's rows are together. A body is read where it is needed, and held beside no other.
-- `parted`: those with parts. The parts of a large one are put together in a large object that is gone with the statement: an aggregate would hold them thrice. Stored as they are,
-- not compressed, so that a fragment is read without those before it. Returns how many.
DROP FUNCTION {schema}.link_append(uuid[], text[], bytea[], bytea[], boolean[], timestamptz[], bigint[], integer[]);
CREATE FUNCTION {schema}.link_append(
    streams uuid[], message_ids text[], headers bytea[], marks boolean[], entered timestamptz[], arrival_ids bigint[], positions integer[],
    parted boolean[]
) RETURNS bigint
LANGUAGE plpgsql
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
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
            SELECT told.nth, told.arrival_id, told.position FROM unnest(arrival_ids, positions, parted) WITH ORDINALITY AS told (arrival_id, position, has_parts, nth)
            WHERE told.has_parts AND {schema}.link_joined_size(told.arrival_id, told.position) > large
        LOOP
            joined[large_one.nth] := {schema}.link_joined(large_one.arrival_id, large_one.position);
        END LOOP;
    END IF;
    -- A statement of its own: what it holds is gone before bodies are stored.
    SELECT array_agg(each.digest ORDER BY each.nth) AS digests, array_agg(each.size ORDER BY each.nth) AS sizes INTO read
    FROM (
        SELECT told.nth,
            sha256(int4send(octet_length(told.header)) || told.header || CASE WHEN told.whole IS NULL THEN stored.body ELSE lo_get(told.whole) END) AS digest,
            CASE WHEN told.whole IS NULL THEN octet_length(stored.body) ELSE {schema}.link_joined_size(told.arrival_id, told.position) END AS size
        FROM unnest(headers, arrival_ids, positions, joined) WITH ORDINALITY AS told (header, arrival_id, position, whole, nth)
        CROSS JOIN LATERAL (
            SELECT CASE WHEN told.whole IS NULL THEN {schema}.link_body(told.arrival_id, told.position) END AS body OFFSET 0
        ) AS stored
    ) AS each;
    WITH given AS MATERIALIZED (
        SELECT told.stream_id, told.message_id, told.header, told.replayed, told.entered_at, told.arrival_id, told.position, told.whole, told.nth,
            told.digest, told.size,
            dense_rank() OVER (ORDER BY told.stream_id) AS stream,
            row_number() OVER (PARTITION BY told.stream_id ORDER BY told.nth) AS place,
            row_number() OVER (ORDER BY told.stream_id, told.nth) AS at
        FROM unnest(streams, message_ids, headers, marks, entered, arrival_ids, positions, joined, read.digests, read.sizes)
            WITH ORDINALITY AS told (stream_id, message_id, header, replayed, entered_at, arrival_id, position, whole, digest, size, nth)
    ), chains AS MATERIALIZED (
        SELECT {schema}.link_chains(
            array_agg(given.stream ORDER BY given.at), array_agg(known.sent_chain ORDER BY given.at),
            array_agg(given.message_id ORDER BY given.at), array_agg(given.digest ORDER BY given.at)
        ) AS every
        FROM given JOIN {schema}.link_streams_out AS known USING (stream_id)
    ), chained AS MATERIALIZED (
        SELECT given.stream_id, given.message_id, given.digest, given.nth, known.sent + given.place AS number, one.chain
        FROM chains CROSS JOIN LATERAL unnest(chains.every) WITH ORDINALITY AS one (chain, at)
        JOIN given ON given.at = one.at
        JOIN {schema}.link_streams_out AS known USING (stream_id)
    ), stored AS (
        INSERT INTO {schema}.link_messages (stream_id, number, message_id, header, body, digest, chain, replayed, entered_at)
        SELECT one.stream_id, one.number, one.message_id, one.header,
            CASE WHEN one.whole IS NULL THEN substring({schema}.link_body(one.arrival_id, one.position), 1) ELSE lo_get(one.whole) END,
            one.digest, one.chain, one.replayed, one.entered_at
        FROM (
            SELECT chained.*, given.header, given.replayed, given.entered_at, given.arrival_id, given.position, given.whole
            FROM chained JOIN given USING (nth) ORDER BY nth OFFSET 0
        ) AS one
        RETURNING 1
    ), moved AS (
        UPDATE {schema}.link_streams_out AS known SET
            sent = last.number, sent_chain = last.chain, last_used = clock_timestamp(), ahead_bytes = known.ahead_bytes + last.bytes
        FROM (
            SELECT DISTINCT ON (chained.stream_id) chained.stream_id, chained.number, chained.chain,
                sum(octet_length(given.header) + given.size) OVER (PARTITION BY chained.stream_id) AS bytes
            FROM chained JOIN given USING (nth) ORDER BY chained.stream_id, chained.number DESC
        ) AS last
        WHERE known.stream_id = last.stream_id
    )
    SELECT count(*) INTO appended FROM stored;
    IF TRUE = ANY (parted) THEN
        PERFORM lo_unlink(each.whole) FROM unnest(joined) AS each (whole) WHERE each.whole IS NOT NULL;
    END IF;
    RETURN appended;
END
$function$;

-- The body of a message in the spool with its parts behind it, as a large object: the caller unlinks it in its transaction. Only one of the pieces is in memory.
CREATE FUNCTION {schema}.link_joined(of_arrival bigint, at_position integer) RETURNS oid
LANGUAGE plpgsql
SET enable_seqscan = off
AS $function$
DECLARE
    whole oid := lo_create(0);
    at bigint := 0;
    piece record;
BEGIN
    FOR piece IN
        SELECT stored.body FROM {schema}.spool AS stored WHERE stored.arrival_id = of_arrival AND stored.position = at_position
    LOOP
        PERFORM lo_put(whole, at, piece.body);
        at := at + octet_length(piece.body);
    END LOOP;
    FOR piece IN
        SELECT part.body FROM {schema}.message_parts AS part
        WHERE part.arrival_id = of_arrival AND part.position = at_position ORDER BY part.number
    LOOP
        PERFORM lo_put(whole, at, piece.body);
        at := at + octet_length(piece.body);
    END LOOP;
    RETURN whole;
END
$function$;

-- How many bytes that are.
CREATE FUNCTION {schema}.link_joined_size(of_arrival bigint, at_position integer) RETURNS integer
LANGUAGE sql STABLE
RETURN (
    SELECT (octet_length(stored.body) + coalesce((
        SELECT sum(octet_length(part.body)) FROM {schema}.message_parts AS part
        WHERE part.arrival_id = stored.arrival_id AND part.position = stored.position
    ), 0))::integer
    FROM {schema}.spool AS stored
    WHERE stored.arrival_id = ANY (ARRAY[of_arrival]) AND stored.position = ANY (ARRAY[at_position])
);

-- Streams that are over: their numbers never come back, and what isn't acknowledged goes on in new ones, marked as replayed. The rows of the messages are moved as they are: no body is
-- read.
CREATE OR REPLACE FUNCTION {schema}.link_end(of_link integer, of_streams uuid[]) RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
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
    SELECT array_agg(one.stream_id ORDER BY one.number) AS ids, array_agg(one.queue_id ORDER BY one.number) AS queue_ids,
        array_agg(one.destination ORDER BY one.number) AS destinations, array_agg(one.key ORDER BY one.number) AS keys
    INTO moved
    FROM {schema}.link_streams_out AS one WHERE one.stream_id = ANY (of_streams) AND EXISTS (
        SELECT FROM {schema}.link_messages AS waiting WHERE waiting.stream_id = one.stream_id AND waiting.number > one.acked
    );
    IF moved.ids IS NOT NULL THEN
        -- Their keys are free for the new ones.
        UPDATE {schema}.link_streams_out SET queue_id = 0, key = stream_id::text WHERE stream_id = ANY (of_streams);
        PERFORM {schema}.link_open(of_link, moved.queue_ids, moved.destinations, moved.keys);
        WITH told AS MATERIALIZED (
            SELECT fresh.stream_id, fresh.chain AS begins, old.id AS old_id, waiting.number, waiting.message_id, waiting.digest,
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
                array_agg(told.stream ORDER BY told.at), array_agg(told.begins ORDER BY told.at), array_agg(told.message_id ORDER BY told.at),
                array_agg(told.digest ORDER BY told.at)
            ) AS every
            FROM told
        ), chained AS MATERIALIZED (
            SELECT told.*, one.chain FROM chains CROSS JOIN LATERAL unnest(chains.every) WITH ORDINALITY AS one (chain, at) JOIN told ON told.at = one.at
        ), renumbered AS (
            UPDATE {schema}.link_messages AS waiting SET
                stream_id = chained.stream_id, number = chained.place, chain = chained.chain, replayed = TRUE, acked_at = NULL
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

-- Store the body and the parts of a message whose fragments have all come. They are put together in a large object that is gone with the transaction; an aggregate would hold the body
-- twice before it is stored, and its row once more.
CREATE FUNCTION {schema}.link_store_fragments(
    arrived bigint, of_link integer, of_incarnation bigint, of_number bigint, its_header bytea, its_size bigint
) RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
AS $function$
DECLARE
    whole oid := lo_create(0);
    at bigint := 0;
    piece record;
    in_parts bigint := (
        SELECT coalesce(sum((part ->> 'size')::bigint), 0) FROM jsonb_array_elements(convert_from(its_header, 'UTF8')::jsonb -> 'parts') AS part
    );
BEGIN
    FOR piece IN
        SELECT one.body FROM {schema}.link_fragments AS one
        WHERE one.link_id = of_link AND one.incarnation = of_incarnation AND one.number = of_number ORDER BY one.fragment
    LOOP
        PERFORM lo_put(whole, at, piece.body);
        at := at + octet_length(piece.body);
    END LOOP;
    at := its_size - in_parts;
    UPDATE {schema}.spool AS stored SET body = lo_get(whole, 0, at::integer) WHERE stored.arrival_id = arrived AND stored.position = 0;
    FOR piece IN
        SELECT (one.part ->> 'size')::integer AS size, one.number
        FROM jsonb_array_elements(convert_from(its_header, 'UTF8')::jsonb -> 'parts') WITH ORDINALITY AS one (part, number) ORDER BY one.number
    LOOP
        UPDATE {schema}.message_parts AS stored SET body = lo_get(whole, at, piece.size)
        WHERE stored.arrival_id = arrived AND stored.position = 0 AND stored.number = piece.number;
        at := at + piece.size;
    END LOOP;
    PERFORM lo_unlink(whole);
END
$function$;

-- `link_collect` as in 0073, with what the new `link_append` takes. `link_take` as in 0073, with bodies from fragments. `link_next` as in 0073, with frames that a transmitter can hold: 2 MiB of a stream and
-- 2.2 MB of messages, or the first message where that has more; and of streams that can go, that one goes first which has waited longest.
DO $all$
DECLARE
    one record;
    before text;
    after text;
BEGIN
    FOR one IN
        SELECT * FROM (VALUES
            ('link_collect', $q$                NULL,
                array_agg(one.replayed$q$, $q$                array_agg(one.replayed$q$),
            ('link_collect', $q$                array_agg(one.position::integer ORDER BY one.stamp, one.position, one.entry_id)
$q$, $q$                array_agg(one.position::integer ORDER BY one.stamp, one.position, one.entry_id),
                array_agg(one.has_parts ORDER BY one.stamp, one.position, one.entry_id)
$q$),
            ('link_collect', $q$stored.position, told.entry_id, stored.received_at,
$q$, $q$stored.position, told.entry_id, stored.received_at, stored.parts IS NOT NULL AS has_parts,
$q$),
            ('link_take', $q$                -- A body without parts is put together where it is stored, and held nowhere beside.
                is_alone := jsonb_array_length(convert_from(part.part_header, 'UTF8')::jsonb -> 'parts') = 0;
$q$, $q$                -- A frame without its body: that comes from the fragments.
$q$),
            ('link_take', $q$convert_to(part.part_id, 'UTF8') || part.part_header || CASE WHEN is_alone THEN '' ELSE (
                        SELECT string_agg(one.body, ''::bytea ORDER BY one.fragment) FROM !.link_fragments AS one
                        WHERE one.link_id = of_link AND one.incarnation = part.incarnation AND one.number = part.number
                    ) END, 0, note.names$q$, $q$convert_to(part.part_id, 'UTF8') || part.part_header, 0, note.names$q$),
            ('link_take', $q$ARRAY[CASE WHEN is_alone THEN 0 ELSE part.size END]$q$, $q$ARRAY[part.size]$q$),
            ('link_take', $q$                IF is_alone AND arrived IS NOT NULL THEN
                    UPDATE !.spool AS stored SET body = (
                        SELECT string_agg(one.body, ''::bytea ORDER BY one.fragment) FROM !.link_fragments AS one
                        WHERE one.link_id = of_link AND one.incarnation = part.incarnation AND one.number = part.number
                    ) WHERE stored.arrival_id = arrived AND stored.position = 0;
                END IF;
$q$, $q$                IF arrived IS NOT NULL THEN
                    PERFORM !.link_store_fragments(arrived, of_link, part.incarnation, part.number, part.part_header, part.size);
                END IF;
$q$),
            ('link_take', $q$    is_alone boolean;
$q$, ''),
            ('link_next', 'largest_round CONSTANT bigint := 4194304', 'largest_round CONSTANT bigint := 2097152'),
            ('link_next', 'least(coalesce(nullif(largest, 0), 16777216), 16777216) - 800000', 'least(coalesce(nullif(largest, 0), 3000000), 3000000) - 800000'),
            ('link_next', 'stream.next_try_at, stream.incarnation, stream.number', 'stream.next_try_at, stream.last_used, stream.incarnation, stream.number'),
            ('link_next', 'SELECT ready.stream_id, one.number, one.number - ready.acked AS place,', 'SELECT ready.stream_id, ready.nth, one.number, one.number - ready.acked AS place,'),
            ('link_next', 'AND sized.in_all <= room AND', 'AND (sized.in_all <= room OR sized.nth = 1 AND sized.place = 1) AND')
        ) AS told (name, was, becomes)
    LOOP
        SELECT pg_get_functiondef(fn.oid) INTO STRICT before FROM pg_proc AS fn
        WHERE fn.pronamespace = '{schema}'::regnamespace AND fn.proname = one.name;
        after := replace(before, replace(one.was, '!', '{schema}'), replace(one.becomes, '!', '{schema}'));
        IF after = before THEN
            RAISE EXCEPTION '% isn''t as it was: %', one.name, one.was;
        END IF;
        EXECUTE after;
    END LOOP;
END
$all$;
