-- Rounds over links cost the same however many streams there are: nothing reads streams or messages that can't go now.

-- Keys of groups are compared by their bytes, in entries too: with another collation here an index can't find a key. A queue of another box
-- belongs to one link, so streams are found without it.
ALTER TABLE {schema}.link_streams_out DROP CONSTRAINT link_streams_out_link_id_queue_id_key_key;
ALTER TABLE {schema}.link_streams_out ALTER key TYPE text COLLATE "C";
CREATE UNIQUE INDEX link_streams_of_keys ON {schema}.link_streams_out (queue_id, key);

-- The body of a message in the spool as it travels: with its parts behind it.
CREATE FUNCTION {schema}.link_body(of_arrival bigint, at_position integer) RETURNS bytea
LANGUAGE sql STABLE
RETURN (
    SELECT CASE WHEN stored.parts IS NULL THEN stored.body ELSE stored.body || (
        SELECT string_agg(part.body, ''::bytea ORDER BY part.number) FROM {schema}.message_parts AS part
        WHERE part.arrival_id = stored.arrival_id AND part.position = stored.position
    ) END
    FROM {schema}.spool AS stored
    WHERE stored.arrival_id = ANY (ARRAY[of_arrival]) AND stored.position = ANY (ARRAY[at_position])
);

-- Put messages behind the last ones of their open streams, in this order. A stream's rows are together. A body is given, or is that of a message in the
-- spool: then it is read where it is needed, and never held beside others. Returns how many.
DROP FUNCTION {schema}.link_append(uuid[], text[], bytea[], bytea[], boolean[], timestamptz[]);
CREATE FUNCTION {schema}.link_append(
    streams uuid[], message_ids text[], headers bytea[], bodies bytea[], marks boolean[], entered timestamptz[],
    arrival_ids bigint[] DEFAULT NULL, positions integer[] DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    appended bigint;
BEGIN
    WITH given AS MATERIALIZED (
        SELECT told.stream_id, told.message_id, told.header, told.replayed, told.entered_at, told.arrival_id, told.position, told.nth,
            sha256(int4send(octet_length(told.header)) || told.header || read.body) AS digest, octet_length(read.body) AS size,
            dense_rank() OVER (ORDER BY told.stream_id) AS stream,
            row_number() OVER (PARTITION BY told.stream_id ORDER BY told.nth) AS place,
            row_number() OVER (ORDER BY told.stream_id, told.nth) AS at
        FROM unnest(streams, message_ids, headers, marks, entered, arrival_ids, positions)
            WITH ORDINALITY AS told (stream_id, message_id, header, replayed, entered_at, arrival_id, position, nth)
        CROSS JOIN LATERAL (SELECT coalesce(bodies[told.nth::integer], {schema}.link_body(told.arrival_id, told.position)) AS body OFFSET 0) AS read
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
            coalesce(bodies[one.nth::integer], {schema}.link_body(one.arrival_id, one.position)), one.digest, one.chain, one.replayed, one.entered_at
        FROM (
            SELECT chained.*, given.header, given.replayed, given.entered_at, given.arrival_id, given.position
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
    RETURN appended;
END
$function$;

-- Put what waits in the remote queues of a link into streams, and complete it there; returns how many messages. The caller has the lock.
-- The window of a stream is 1,000 messages and 64 MiB, that of a link 1 GiB. Of a group that is suspended nothing goes.
CREATE OR REPLACE FUNCTION {schema}.link_collect(of_link integer, at_most integer) RETURNS bigint
LANGUAGE plpgsql
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    place record;
    found record;
    own uuid := (SELECT known.box_id FROM {schema}.box_identity AS known);
    its_link {schema}.links;
    too_large CONSTANT bigint := 600000000;
    stopped integer[];
    ahead bigint;
    collected bigint := 0;
BEGIN
    SELECT * INTO its_link FROM {schema}.links WHERE link_id = of_link;
    ahead := (SELECT coalesce(sum(known.ahead_bytes), 0) FROM {schema}.link_streams_out AS known WHERE known.link_id = of_link AND known.acked < known.sent);
    FOR place IN
        SELECT known.queue_id, known.queue, coalesce(known.definition ->> 'remote', known.queue) AS destination,
            known.definition #>> '{{policy,name}}' = 'unordered' AS unordered,
            coalesce((known.definition ->> 'lanes')::bigint, 1) AS lanes
        FROM {schema}.queues AS known
        WHERE known.definition ->> 'at' = its_link.link AND known.enabled ORDER BY known.queue_id
    LOOP
        EXIT WHEN ahead >= 1073741824 OR collected >= at_most;
        stopped := ARRAY(
            SELECT one.subscription_id FROM {schema}.known_subscriptions AS one WHERE one.queue_id = place.queue_id AND one.state <> 'started'
        );
        SELECT array_agg(one.entry_id) AS entry_ids, array_agg(one.key) AS keys, array_agg(one.arrival_id) AS arrival_ids,
            array_agg(one.position) AS positions, array_agg(one.bytes) AS sizes, array_agg(one.stamp) AS stamps,
            array_agg(DISTINCT one.group_key) FILTER (WHERE one.judged) AS judged
        INTO found
        FROM (
            WITH come AS MATERIALIZED (
                SELECT one.* FROM {schema}.entries AS one
                WHERE one.queue_id = place.queue_id AND one.status = 'arrived'
                    AND (one.visible_at IS NULL OR one.visible_at <= clock_timestamp())
                    AND (one.subscription_ids <> '{{}}' AND one.subscription_ids <@ stopped) IS NOT TRUE
                    -- Of a stream that can take nothing now, and of a group that is suspended, nothing is read. Each is looked up: a join
                    -- would read all streams and all groups of the queue.
                    AND (place.unordered OR coalesce((
                        SELECT stream.status = 0 AND stream.sent - stream.acked < 1000 AND stream.ahead_bytes < 67108864
                        FROM {schema}.link_streams_out AS stream
                        WHERE stream.queue_id = place.queue_id AND stream.key = one.group_key
                    ), TRUE)) AND coalesce((
                        SELECT known.flags <= 1 FROM {schema}.known_groups AS known
                        WHERE known.queue_id = place.queue_id AND known.group_key = one.group_key
                    ), TRUE)
                ORDER BY one.rank, one.arrival_id, one.position LIMIT at_most - collected
            ), edge AS MATERIALIZED (
                SELECT max(come.rank) AS rank, max(run.arrived_us) AS until
                FROM come JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[come.arrival_id])
                HAVING count(*) >= at_most - collected
            ), behind AS MATERIALIZED (
                -- They are read by the time at which they were published, and go in the order of commits. What is left for later may have been committed
                -- before some of these, while their transactions ran on: then these wait with it.
                SELECT DISTINCT ON (later.group_key) later.group_key, run.stamp, later.position
                FROM edge CROSS JOIN LATERAL (
                    SELECT one.* FROM {schema}.entries AS one
                    WHERE one.queue_id = place.queue_id AND one.status = 'arrived' AND one.rank BETWEEN edge.rank AND edge.until OFFSET 0
                ) AS later
                JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[later.arrival_id])
                WHERE later.entry_id NOT IN (SELECT come.entry_id FROM come)
                    AND (later.visible_at IS NULL OR later.visible_at <= clock_timestamp())
                ORDER BY later.group_key, run.stamp, later.position
            )
            SELECT waiting.*,
                row_number() OVER (PARTITION BY waiting.key ORDER BY waiting.stamp, waiting.position, waiting.entry_id) + waiting.ahead AS place,
                sum(waiting.bytes) OVER (PARTITION BY waiting.key ORDER BY waiting.stamp, waiting.position, waiting.entry_id) + waiting.ahead_bytes AS bytes_there,
                sum(waiting.bytes) OVER (ORDER BY waiting.stamp, waiting.position, waiting.entry_id) - waiting.bytes AS bytes_before
            FROM (
                SELECT entry.entry_id, entry.arrival_id, entry.position, entry.group_key, entry.status = 'queued' AS judged,
                    CASE entry.status WHEN 'queued' THEN entry.ordinal - 4611686018427387904 ELSE run.stamp END AS stamp, keyed.key,
                    coalesce(stream.sent - stream.acked, 0) AS ahead, coalesce(stream.ahead_bytes, 0) AS ahead_bytes,
                    2000 + octet_length(stored.context::text) + CASE WHEN octet_length(stored.context::text) > 1000000 THEN 1000000000000 ELSE 0 END
                        + octet_length(stored.body)::bigint + CASE WHEN stored.parts IS NULL THEN 0 ELSE (
                        SELECT sum(octet_length(part.body)) FROM {schema}.message_parts AS part
                        WHERE part.arrival_id = stored.arrival_id AND part.position = stored.position
                    ) END AS bytes
                FROM (
                    SELECT come.* FROM come
                    UNION ALL (
                        -- What was judged, because an operator did something to its group.
                        SELECT one.* FROM {schema}.known_groups AS known
                        JOIN {schema}.entries AS one
                            ON one.queue_id = known.queue_id AND one.group_key = known.group_key AND one.status = 'queued'
                        WHERE known.queue_id = place.queue_id AND known.ready_rank IS NOT NULL AND known.flags <= 1
                        ORDER BY known.ready_rank, one.ordinal LIMIT at_most - collected
                    )
                ) AS entry
                JOIN {schema}.spool AS stored
                    ON stored.arrival_id = ANY (ARRAY[entry.arrival_id]) AND stored.position = ANY (ARRAY[entry.position])
                -- What isn't numbered yet is of a transaction that isn't over, or of this one.
                JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[entry.arrival_id])
                CROSS JOIN LATERAL (SELECT CASE WHEN place.unordered
                    THEN ((('x' || left(md5(stored.message_id), 8))::bit(32)::bigint) % place.lanes)::text
                    ELSE entry.group_key END AS key) AS keyed
                LEFT JOIN LATERAL (
                    SELECT one.* FROM {schema}.link_streams_out AS one
                    WHERE one.queue_id = place.queue_id AND one.key = keyed.key OFFSET 0
                ) AS stream ON TRUE
                LEFT JOIN behind ON behind.group_key = entry.group_key AND NOT place.unordered
                WHERE (entry.visible_at IS NULL OR entry.visible_at <= clock_timestamp())
                    AND (behind.group_key IS NULL OR entry.status = 'queued' OR (run.stamp, entry.position) < (behind.stamp, behind.position))
                    AND (stream.stream_id IS NULL
                        OR stream.status = 0 AND stream.sent - stream.acked < 1000 AND stream.ahead_bytes < 67108864)
                OFFSET 0 -- so that bodies aren't sorted
            ) AS waiting
        ) AS one
        WHERE one.place <= 1000 AND (one.bytes_there <= 67108864 OR one.place = 1)
            AND (one.bytes_before < 33554432);
        CONTINUE WHEN found.entry_ids IS NULL;
        -- What can't travel is set aside, so that the rest of its group goes on.
        IF too_large < ANY (found.sizes) THEN
            WITH gone AS (
                DELETE FROM {schema}.entries AS entry USING unnest(found.entry_ids, found.sizes) AS told (entry_id, bytes)
                WHERE entry.entry_id = told.entry_id AND told.bytes > too_large RETURNING entry.*
            )
            INSERT INTO {schema}.aside (
                entry_id, queue_id, group_key, disposition, reason, arrival_id, position, sequence, size, priority, subscription_ids
            )
            SELECT gone.entry_id, gone.queue_id, gone.group_key, 'invalid', 'its properties have more than 1 MB, which can''t travel over a link',
                gone.arrival_id, gone.position, gone.sequence, gone.size, gone.priority, gone.subscription_ids FROM gone;
        END IF;
        PERFORM {schema}.link_open(of_link, array_agg(place.queue_id), array_agg(place.destination), array_agg(fresh.key))
        FROM (
            SELECT DISTINCT told.key FROM unnest(found.keys, found.sizes) AS told (key, bytes)
            WHERE told.bytes <= too_large AND (
                SELECT stream.number FROM {schema}.link_streams_out AS stream
                WHERE stream.queue_id = place.queue_id AND stream.key = told.key
            ) IS NULL
        ) AS fresh HAVING count(*) > 0;
        collected := collected + (
            SELECT {schema}.link_append(
                array_agg(one.stream_id ORDER BY one.stamp, one.position, one.entry_id),
                array_agg(one.message_id ORDER BY one.stamp, one.position, one.entry_id),
                array_agg(one.header ORDER BY one.stamp, one.position, one.entry_id),
                NULL,
                array_agg(one.replayed ORDER BY one.stamp, one.position, one.entry_id),
                array_agg(one.received_at ORDER BY one.stamp, one.position, one.entry_id),
                array_agg(one.arrival_id ORDER BY one.stamp, one.position, one.entry_id),
                array_agg(one.position::integer ORDER BY one.stamp, one.position, one.entry_id)
            )
            FROM (
                SELECT stream.stream_id, stored.message_id, told.stamp, stored.arrival_id, stored.position, told.entry_id, stored.received_at,
                    stream.sent = 0 AND told.entry_id <= its_link.replayed_through
                        OR stored.id_space ^@ 'link:' AND coalesce(stored.context -> 'link_replayed' = 'true', FALSE) AS replayed,
                    convert_to(jsonb_build_object(
                        'type', stored.type, 'content_type', stored.content_type,
                        'space', CASE WHEN passed.on THEN substr(stored.id_space, 43) ELSE stored.id_space END,
                        'context', stored.context
                            - '{{to,location,link_sent_by,link_through,link_replayed,origin_queue,origin_group,origin_incarnation,origin_ordinal}}'::text[],
                        'property_types', coalesce(stored.property_types, '{{}}')
                            - '{{to,location}}'::text[],
                        'sent_by', CASE WHEN passed.on THEN (stored.context ->> 'link_sent_by')::jsonb ELSE jsonb_build_object(
                            'box', own, 'queue', place.queue, 'location', run.location,
                            'epoch', run.epoch + (run.number - 1 + stored.position) / at.last_number,
                            'number', (run.number - 1 + stored.position) % at.last_number + 1
                        ) END,
                        'through', CASE WHEN passed.on THEN (stored.context ->> 'link_through')::jsonb ELSE '[]' END || to_jsonb(own),
                        'parts', CASE WHEN stored.parts IS NULL THEN '[]' ELSE (
                            SELECT jsonb_agg(jsonb_build_object(
                                'name', part.name, 'content_type', part.content_type, 'size', octet_length(part.body)
                            ) ORDER BY part.number)
                            FROM {schema}.message_parts AS part
                            WHERE part.arrival_id = stored.arrival_id AND part.position = stored.position
                        ) END
                    )::text, 'UTF8') AS header
                FROM unnest(found.entry_ids, found.keys, found.arrival_ids, found.positions, found.sizes, found.stamps)
                    AS told (entry_id, key, arrival_id, position, bytes, stamp)
                JOIN {schema}.spool AS stored
                    ON stored.arrival_id = ANY (ARRAY[told.arrival_id]) AND stored.position = ANY (ARRAY[told.position])
                JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[told.arrival_id])
                JOIN {schema}.locations AS at ON at.location = run.location
                CROSS JOIN LATERAL (
                    SELECT one.* FROM {schema}.link_streams_out AS one
                    WHERE one.queue_id = place.queue_id AND one.key = told.key OFFSET 0
                ) AS stream
                CROSS JOIN LATERAL (SELECT stored.id_space ^@ 'link:' AS on) AS passed
                WHERE told.bytes <= too_large
            ) AS one HAVING count(*) > 0
        );
        ahead := ahead + (SELECT sum(bytes) FROM unnest(found.sizes) AS bytes WHERE bytes <= too_large);
        IF found.judged IS NOT NULL THEN
            UPDATE {schema}.known_groups AS known SET ready_rank = NULL
            WHERE known.queue_id = place.queue_id AND known.group_key = ANY (found.judged) AND NOT EXISTS (
                SELECT FROM {schema}.entries AS one
                WHERE one.queue_id = place.queue_id AND one.group_key = known.group_key AND one.status = 'queued'
                    AND one.entry_id <> ALL (found.entry_ids)
            );
        END IF;
        PERFORM {schema}.link_leave(
            ARRAY(SELECT told.entry_id FROM unnest(found.entry_ids, found.sizes) AS told (entry_id, bytes) WHERE told.bytes <= too_large)
        );
    END LOOP;
    RETURN collected;
END
$function$;

-- The next batch for the other box, and the token of this question; NULL where somebody else is sending. What is in it is asked for again
-- only when `next_try_at` has passed. `at_once`: now, whatever was noted. `more`: something else can be sent now.
CREATE OR REPLACE FUNCTION {schema}.link_next(
    of_link integer, largest bigint, at_once boolean, OUT frame bytea, OUT of_token uuid, OUT messages bigint, OUT more boolean
)
LANGUAGE plpgsql
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    its_link {schema}.links;
    keeps interval;
    idle interval;
    collected bigint;
    asked record;
    over record;
    content bytea;
    largest_round CONSTANT bigint := 4194304;
    fragment_bytes CONSTANT bigint := 1048576;
    room bigint := least(coalesce(nullif(largest, 0), 16777216), 16777216) - 800000;
BEGIN
    IF NOT {schema}.link_lock(of_link, TRUE) THEN
        RETURN;
    END IF;
    PERFORM {schema}.link_durable();
    SELECT * INTO its_link FROM {schema}.links WHERE link_id = of_link;
    IF its_link.peer IS NULL THEN
        RETURN;
    END IF;
    keeps := make_interval(secs => coalesce((its_link.definition ->> 'keep_sent')::double precision, 0));
    idle := make_interval(secs => coalesce((its_link.definition ->> 'stream_idle')::double precision, 3600));
    WITH old AS (
        DELETE FROM {schema}.link_messages AS one USING {schema}.link_streams_out AS stream
        WHERE stream.link_id = of_link AND stream.kept < stream.acked AND one.stream_id = stream.stream_id
            AND one.number <= stream.acked AND one.acked_at <= clock_timestamp() - keeps
        RETURNING one.stream_id, one.number, one.chain
    )
    UPDATE {schema}.link_streams_out AS stream SET kept = last.number, kept_chain = last.chain
    FROM (SELECT DISTINCT ON (old.stream_id) * FROM old ORDER BY old.stream_id, old.number DESC) AS last
    WHERE stream.stream_id = last.stream_id;
    UPDATE {schema}.link_streams_out AS stream SET status = 1, next_try_at = '-infinity'
    WHERE stream.link_id = of_link AND stream.status = 0 AND stream.kept = stream.sent AND stream.acked = stream.sent
        AND stream.last_used <= clock_timestamp() - idle;
    collected := {schema}.link_collect(of_link, 5000);

    WITH ready AS MATERIALIZED (
        SELECT stream.*, row_number() OVER (ORDER BY stream.next_try_at, stream.incarnation, stream.number) AS nth
        FROM {schema}.link_streams_out AS stream
        WHERE stream.link_id = of_link AND (stream.status <> 0 OR stream.acked < stream.sent)
            AND (at_once OR stream.next_try_at <= clock_timestamp())
        ORDER BY stream.next_try_at, stream.incarnation, stream.number LIMIT 2001
    ), sized AS (
        SELECT ready.stream_id, one.number, one.number - ready.acked AS place,
            max(one.in_parts) OVER (PARTITION BY ready.nth) AS in_parts,
            sum(one.bytes) OVER (PARTITION BY ready.nth ORDER BY one.number) AS in_stream,
            sum(one.bytes) OVER (ORDER BY ready.nth, one.number) AS in_all
        FROM ready CROSS JOIN LATERAL (
            SELECT waiting.number, (waiting.number = ready.acked + 1 AND octet_length(waiting.body) > largest_round)::integer AS in_parts,
                64 + octet_length(waiting.message_id) + octet_length(waiting.header) + CASE
                    WHEN waiting.number = ready.acked + 1 THEN least(octet_length(waiting.body), largest_round)
                    ELSE octet_length(waiting.body)
                END AS bytes
            FROM {schema}.link_messages AS waiting
            WHERE waiting.stream_id = ready.stream_id AND waiting.number > ready.acked ORDER BY waiting.number LIMIT 1000
        ) AS one
        WHERE ready.status = 0
    ), fitting AS (
        SELECT sized.stream_id, count(*) AS count FROM sized
        WHERE (sized.in_stream <= largest_round OR sized.place = 1) AND sized.in_all <= room AND (sized.in_parts = 0 OR sized.place = 1)
        GROUP BY 1
    ), chosen AS MATERIALIZED (
        SELECT ready.*, coalesce(fitting.count, 0) AS count FROM ready LEFT JOIN fitting USING (stream_id)
        WHERE (ready.status <> 0 OR fitting.count > 0) AND ready.nth <= 2000
    )
    SELECT array_agg(chosen.stream_id ORDER BY chosen.nth) AS ids, array_agg(chosen.count ORDER BY chosen.nth) AS counts,
        coalesce(sum(chosen.count), 0)::bigint AS messages,
        (SELECT count(*) FROM ready) > count(*) OR bool_or(chosen.status = 0 AND chosen.acked + chosen.count < chosen.sent) AS more
    INTO asked FROM chosen;
    messages := asked.messages;
    more := coalesce(asked.more, FALSE) OR collected >= 5000;
    of_token := gen_random_uuid();
    UPDATE {schema}.link_streams_out AS stream SET
        token = of_token, attempts = stream.attempts + 1,
        next_try_at = clock_timestamp() + make_interval(secs => least(2 ^ least(stream.attempts, 9), 300))
    WHERE stream.stream_id = ANY (asked.ids);
    -- A row is written, so the log is on disk up to here when the batch leaves. A batch without streams says only what was on disk before.
    UPDATE {schema}.links SET sent_at = clock_timestamp()
    WHERE link_id = of_link AND (asked.ids IS NOT NULL OR sent_at IS NULL OR sent_at < clock_timestamp() - interval '30 seconds');

    SELECT ranges.how_many, ranges.records INTO over
    FROM (
        SELECT coalesce(array_agg(known.incarnation), '{{}}') AS incarnations, coalesce(array_agg(known.over), '{{}}') AS numbers
        FROM {schema}.link_numbers AS known WHERE known.link_id = of_link AND known.is_ours AND NOT isempty(known.over)
    ) AS told CROSS JOIN LATERAL {schema}.link_range_records(told.incarnations, told.numbers) AS ranges;

    WITH told AS MATERIALIZED (
        SELECT stream.*, given.count, given.nth FROM unnest(asked.ids, asked.counts) WITH ORDINALITY AS given (id, count, nth)
        JOIN {schema}.link_streams_out AS stream ON stream.stream_id = given.id
    ), going AS MATERIALIZED (
        SELECT told.nth, one.number, one.message_id, one.digest, one.replayed OR one.number <= told.marked AS replayed,
            octet_length(one.header) AS header_length, octet_length(one.body) AS size, part.begins, part.length
        FROM told JOIN {schema}.link_messages AS one
            ON one.stream_id = told.stream_id AND one.number > told.acked AND one.number <= told.acked + told.count
        CROSS JOIN LATERAL (
            SELECT CASE WHEN large.is_large THEN told.fragment * fragment_bytes ELSE 0 END AS begins,
                CASE WHEN large.is_large THEN least(octet_length(one.body) - told.fragment * fragment_bytes, largest_round)
                    ELSE octet_length(one.body) END AS length
            FROM (
                SELECT one.number = told.acked + 1 AND octet_length(one.body) > largest_round
                    AND told.fragment * fragment_bytes < octet_length(one.body) AS is_large
            ) AS large
        ) AS part
    )
    SELECT
        coalesce((SELECT string_agg(
            int8send(told.incarnation) || int8send(told.number) || uuid_send(told.stream_id) || int4send(told.status::integer)
            || int4send(told.count::integer) || int8send(told.acked) || int8send(CASE told.status WHEN 2 THEN told.lacks ELSE 0 END) || told.chain
            || int4send(octet_length(convert_to(told.destination, 'UTF8'))) || int4send(octet_length(convert_to(told.key, 'UTF8'))),
            ''::bytea ORDER BY told.nth
        ) FROM told), ''::bytea)
        || coalesce((SELECT string_agg(
            going.digest || int8send(going.size) || int8send(going.begins) || int4send(going.length::integer)
            || int4send(octet_length(convert_to(going.message_id, 'UTF8'))) || int4send(going.header_length) || int4send(going.replayed::integer),
            ''::bytea ORDER BY going.nth, going.number
        ) FROM going), ''::bytea)
        || coalesce((SELECT string_agg(
            convert_to(told.destination, 'UTF8') || convert_to(told.key, 'UTF8'), ''::bytea ORDER BY told.nth
        ) FROM told), ''::bytea)
        || coalesce((SELECT string_agg(
            convert_to(one.message_id, 'UTF8') || one.header || CASE
                WHEN going.length < going.size THEN substring(one.body, (going.begins + 1)::integer, going.length::integer) ELSE one.body
            END, ''::bytea ORDER BY told.nth, one.number
        ) FROM told JOIN {schema}.link_messages AS one
            ON one.stream_id = told.stream_id AND one.number > told.acked AND one.number <= told.acked + told.count
        JOIN going ON going.nth = told.nth AND going.number = one.number), ''::bytea)
    INTO content;
    frame := {schema}.link_frame(
        1, its_link.peer, over.how_many, coalesce(cardinality(asked.ids), 0), messages, 0, over.records || content
    );
END
$function$;

-- Take a batch of the other box in, and answer it. What it changes is on disk when the answers leave, for that is after the commit.
CREATE OR REPLACE FUNCTION {schema}.link_take(of_link integer, frame bytea, OUT answers bytea, OUT messages bigint)
LANGUAGE plpgsql
SET enable_seqscan = off
SET jit = off
SET enable_nestloop = on
SET plan_cache_mode = auto
AS $function$
DECLARE
    head record;
    its_link {schema}.links;
    own uuid := (SELECT known.box_id FROM {schema}.box_identity AS known);
    disabled text := {schema}.disabled_because();
    is_busy boolean;
    base bigint;
    heap bigint;
    stream record;
    message record;
    fate record;
    lost_incarnations bigint[];
    lost_numbers int8multirange[];
    lost record;
    chains bytea[];
    now_at bytea[];
    note record;
    part record;
    whole bigint[];
    fits boolean[];
    kept bigint[];
    parted bigint[];
    faulty integer;
    is_alone boolean;
    arrived bigint;
    fragment_bytes CONSTANT bigint := 1048576;
BEGIN
    SELECT * INTO head FROM {schema}.link_head(frame);
    PERFORM {schema}.link_check(head.kind = 1, 'a frame that should be a batch is something else');
    SELECT * INTO its_link FROM {schema}.links WHERE link_id = of_link;
    PERFORM {schema}.link_durable();
    is_busy := NOT {schema}.link_lock(of_link, FALSE) OR disabled IS NOT NULL;
    base := 64 + 24 * head.ranges;

    -- A plan for these values would have a copy of the frame for each time that it is named. Without a look at the arrays a nested loop seems cheap.
    PERFORM set_config('plan_cache_mode', 'force_generic_plan', TRUE), set_config('enable_nestloop', 'off', TRUE);
    -- Its streams.
    SELECT array_agg(one.incarnation ORDER BY one.nth) AS incarnations, array_agg(one.number ORDER BY one.nth) AS numbers,
        array_agg(one.begins ORDER BY one.nth) AS begins, array_agg(one.kind ORDER BY one.nth) AS kinds,
        array_agg(one.count ORDER BY one.nth) AS counts, array_agg(one.after ORDER BY one.nth) AS afters,
        array_agg(one.lacks ORDER BY one.nth) AS lacks, array_agg(one.chain ORDER BY one.nth) AS chains,
        array_agg(one.name_length ORDER BY one.nth) AS name_lengths, array_agg(one.key_length ORDER BY one.nth) AS key_lengths,
        array_agg(one.place::bigint ORDER BY one.nth) AS places, coalesce(sum(one.name_length + one.key_length), 0)::bigint AS bytes,
        coalesce(sum(one.count), 0)::bigint AS messages,
        count(DISTINCT (one.incarnation, one.number)) AS distinct_ones,
        bool_and(
            one.incarnation BETWEEN 1 AND 9007199254740991 AND one.number BETWEEN 1 AND 9007199254740991 AND one.kind <= 2
            AND one.count <= 1000 AND (one.kind = 0 OR one.count = 0) AND one.after BETWEEN 0 AND 9007199254740991 - one.count
            AND one.lacks BETWEEN 0 AND CASE one.kind WHEN 2 THEN one.after ELSE 0 END
            AND one.name_length BETWEEN 1 AND 512 AND one.key_length <= 1024
        ) AS are_right
    INTO stream
    FROM (
        SELECT read.*, sum(read.name_length + read.key_length) OVER (ORDER BY read.nth) - read.name_length - read.key_length AS place
        FROM (
            SELECT nth, {schema}.link_u8(frame, at) AS incarnation, {schema}.link_u8(frame, at + 8) AS number,
                sha256('seriatim stream'::bytea || substring(frame, (at + 17)::integer, 16)) AS begins,
                {schema}.link_u4(frame, at + 32) AS kind, {schema}.link_u4(frame, at + 36) AS count,
                {schema}.link_u8(frame, at + 40) AS after, {schema}.link_u8(frame, at + 48) AS lacks,
                substring(frame, (at + 57)::integer, 32) AS chain, {schema}.link_u4(frame, at + 88) AS name_length,
                {schema}.link_u4(frame, at + 92) AS key_length
            FROM generate_series(1, head.rows) AS nth CROSS JOIN LATERAL (SELECT base + 96 * (nth - 1) AS at) AS row
        ) AS read
    ) AS one;
    PERFORM {schema}.link_check(stream.are_right IS NOT FALSE, 'a stream has numbers, a kind or lengths that none can have');
    PERFORM {schema}.link_check(stream.distinct_ones = head.rows, 'a stream is in a batch twice');
    PERFORM {schema}.link_check(
        stream.messages = head.messages, format('streams have %s messages, and %s came', stream.messages, head.messages)
    );
    heap := base + 96 * head.rows + 64 * head.messages;

    -- Its messages.
    SELECT array_agg(one.stream ORDER BY one.nth) AS streams, array_agg(one.place::bigint ORDER BY one.nth) AS places,
        array_agg(one.digest ORDER BY one.nth) AS digests, array_agg(one.size ORDER BY one.nth) AS sizes,
        array_agg(one.id_length ORDER BY one.nth) AS id_lengths, array_agg(one.header_length ORDER BY one.nth) AS header_lengths,
        array_agg(one.flags ORDER BY one.nth) AS flags, array_agg(one.at::bigint ORDER BY one.nth) AS ats,
        coalesce(sum(one.part_length + one.id_length + one.header_length), 0)::bigint AS bytes,
        bool_and(
            one.flags <= 1 AND one.id_length BETWEEN 1 AND 1024 AND one.header_length <= 1048576 AND one.size BETWEEN 0 AND 536870912
        ) AS are_right,
        array_agg(one.part_from ORDER BY one.nth) AS part_froms, array_agg(one.part_length ORDER BY one.nth) AS part_lengths,
        coalesce(bool_or(one.part_length < one.size), FALSE) AS has_parts,
        bool_and(
            one.part_from BETWEEN 0 AND one.size AND one.part_from % fragment_bytes = 0 AND one.part_from + one.part_length <= one.size
            AND (one.part_from + one.part_length = one.size OR one.part_length % fragment_bytes = 0)
            AND (one.part_length > 0 OR one.size = 0)
            AND (one.part_length = one.size OR stream.counts[one.stream] = 1)
        ) AS are_parts
    INTO message
    FROM (
        SELECT read.*, sum(read.part_length + read.id_length + read.header_length) OVER (ORDER BY read.nth)
            - read.part_length - read.id_length - read.header_length AS at
        FROM (
            SELECT told.stream, told.place, told.nth, substring(frame, (row.at + 1)::integer, 32) AS digest,
                {schema}.link_u8(frame, row.at + 32) AS size, {schema}.link_u8(frame, row.at + 40) AS part_from,
                {schema}.link_u4(frame, row.at + 48) AS part_length, {schema}.link_u4(frame, row.at + 52) AS id_length,
                {schema}.link_u4(frame, row.at + 56) AS header_length, {schema}.link_u4(frame, row.at + 60) AS flags
            FROM (
                SELECT each.nth AS stream, place, row_number() OVER (ORDER BY each.nth, place) AS nth
                FROM unnest(stream.counts) WITH ORDINALITY AS each (count, nth), generate_series(1, each.count) AS place
            ) AS told
            CROSS JOIN LATERAL (SELECT base + 96 * head.rows + 64 * (told.nth - 1) AS at) AS row
        ) AS read
    ) AS one;
    PERFORM {schema}.link_check(message.are_right IS NOT FALSE, 'a message has lengths or flags that none can have');
    PERFORM {schema}.link_check(
        message.are_parts IS NOT FALSE, 'a part of a body isn''t made of fragments, or isn''t alone in its stream'
    );
    PERFORM {schema}.link_check(
        heap + stream.bytes + message.bytes = octet_length(frame) - 32, 'the heap of a frame isn''t as long as its records tell'
    );
    heap := heap + stream.bytes;
    SELECT array_agg(convert_from(substring(frame, (heap - stream.bytes + one.at + 1)::integer, one.name_length::integer), 'UTF8') ORDER BY one.nth) AS names,
        array_agg(convert_from(
            substring(frame, (heap - stream.bytes + one.at + one.name_length + 1)::integer, one.key_length::integer), 'UTF8'
        ) ORDER BY one.nth) AS keys
    INTO note FROM unnest(stream.places, stream.name_lengths, stream.key_lengths) WITH ORDINALITY AS one (at, name_length, key_length, nth);
    PERFORM {schema}.link_check(bool_and(one.digest = sha256(
        int4send(one.header_length::integer)
        || substring(frame, (heap + one.at + one.id_length + 1)::integer, (one.header_length + one.size)::integer)
    )) IS NOT FALSE, 'the content of a message isn''t what its digest says')
    FROM unnest(message.digests, message.sizes, message.id_lengths, message.header_lengths, message.ats, message.part_lengths)
        AS one (digest, size, id_length, header_length, at, part_length)
    WHERE one.part_length = one.size;
    SELECT {schema}.link_chains(
        array_agg(read.stream ORDER BY read.nth), array_agg(first.chain ORDER BY read.nth),
        array_agg(convert_from(substring(frame, (heap + read.at + 1)::integer, read.id_length::integer), 'UTF8') ORDER BY read.nth),
        array_agg(read.digest ORDER BY read.nth)
    ) INTO chains
    FROM unnest(message.streams, message.digests, message.id_lengths, message.ats)
        WITH ORDINALITY AS read (stream, digest, id_length, at, nth)
    JOIN unnest(stream.chains) WITH ORDINALITY AS first (chain, nth) ON first.nth = read.stream;

    PERFORM set_config('plan_cache_mode', {schema}.link_plans(head.messages), TRUE), set_config('enable_nestloop', 'on', TRUE);

    -- What is over for the sender, and not known as that here, is lost.
    IF NOT is_busy THEN
        SELECT array_agg(told.incarnation ORDER BY told.incarnation), array_agg(told.numbers ORDER BY told.incarnation)
        INTO lost_incarnations, lost_numbers
        FROM (
            SELECT one.incarnation, one.numbers - coalesce(here.over, '{{}}') AS numbers
            FROM {schema}.link_ranges(frame, head.ranges) AS one
            LEFT JOIN {schema}.link_numbers AS here
                ON here.link_id = of_link AND NOT here.is_ours AND here.incarnation = one.incarnation
        ) AS told WHERE NOT isempty(told.numbers);
        IF lost_incarnations IS NOT NULL THEN
            INSERT INTO {schema}.link_numbers AS here (link_id, is_ours, incarnation, highest, begins, over)
            SELECT of_link, FALSE, one.incarnation, upper(one.numbers) - 1, decode(repeat('00', 32), 'hex'), one.numbers
            FROM unnest(lost_incarnations, lost_numbers) AS one (incarnation, numbers)
            ON CONFLICT (link_id, is_ours, incarnation) DO UPDATE SET
                over = here.over + excluded.over, highest = greatest(here.highest, excluded.highest),
                begins = CASE WHEN excluded.highest > here.highest THEN excluded.begins ELSE here.begins END;
            DELETE FROM {schema}.link_streams_in AS one USING unnest(lost_incarnations, lost_numbers) AS gone (incarnation, numbers)
            WHERE one.link_id = of_link AND one.incarnation = gone.incarnation AND gone.numbers @> one.number;
            PERFORM {schema}.link_note_restored(
                of_link, 'streams are over for the other box, and this one has no note of them: it seems to have gone back', NULL, NULL,
                jsonb_build_object('incarnations', lost_incarnations, 'streams', lost_numbers::text[])
            );
        END IF;
    END IF;
    SELECT * INTO lost FROM {schema}.link_range_records(coalesce(lost_incarnations, '{{}}'), coalesce(lost_numbers, '{{}}'));

    -- Fragments are kept, in order; the last one makes a message of them.
    whole := stream.counts;
    fits := array_fill(TRUE, ARRAY[head.rows::integer]);
    kept := array_fill(NULL::bigint, ARRAY[head.rows::integer]);
    IF message.has_parts THEN
        FOR part IN
            SELECT each.nth, stream.incarnations[each.nth] AS incarnation, stream.numbers[each.nth] AS number, note.names[each.nth] AS name,
                note.keys[each.nth] AS key, stream.begins[each.nth] AS begins, stream.afters[each.nth] AS after, told.size, told.part_from,
                told.part_length, told.id_length, told.header_length, told.at, told.digest, stream.chains[each.nth] AS chain
            FROM unnest(
                message.streams, message.sizes, message.part_froms, message.part_lengths, message.id_lengths, message.header_lengths, message.ats,
                message.digests
            ) AS told (nth, size, part_from, part_length, id_length, header_length, at, digest)
            CROSS JOIN LATERAL (SELECT told.nth::integer AS nth) AS each
            WHERE told.part_length < told.size
        LOOP
            whole[part.nth] := 0;
            kept[part.nth] := {schema}.link_keep_fragments(
                of_link, frame, heap + part.at, part.incarnation, part.number, part.name, part.key, part.begins, part.after, part.chain, part.digest,
                part.size, part.part_from, part.part_length, part.id_length, part.header_length,
                NOT is_busy AND part.name = ANY (its_link.queues)
            );
            fits[part.nth] := kept[part.nth] >= 0;
            IF kept[part.nth] * fragment_bytes >= part.size THEN
                whole[part.nth] := 1;
            END IF;
        END LOOP;
    END IF;

    -- What becomes of each stream.
    SELECT array_agg(one.answer ORDER BY one.nth) AS answers, array_agg(one.received ORDER BY one.nth) AS received,
        array_agg(one.skipped ORDER BY one.nth) AS skipped, array_agg(one.taken ORDER BY one.nth) AS taken,
        array_agg(one.ends ORDER BY one.nth) AS ends, array_agg(one.event ORDER BY one.nth) AS events,
        array_agg(one.chain ORDER BY one.nth) AS chains,
        array_agg(one.known_received ORDER BY one.nth) AS known_received,
        array_agg(one.queue_id ORDER BY one.nth) AS queue_ids,
        array_agg(one.is_known ORDER BY one.nth) AS are_known,
        array_agg(CASE
            WHEN one.answer = 0 AND one.after = 0 AND one.count > 0 THEN coalesce(one.groups_by, '')
            WHEN one.answer <> 1 THEN ''
            WHEN disabled IS NOT NULL THEN 'the box is disabled'
            WHEN is_busy THEN 'busy'
            WHEN one.queue_id IS NULL THEN format('there is no queue "%s"', one.name)
            ELSE format('the queue "%s" is full', one.name)
        END ORDER BY one.nth) AS reasons
    INTO fate
    FROM (
        SELECT told.*, verdict.* FROM (
            SELECT each.*, place.queue_id, here.number IS NOT NULL AS is_known, place.definition ->> 'group' AS groups_by,
                coalesce(here.received, 0) AS known_received, coalesce(here.chain, each.begins) AS chain,
                coalesce(numbers.over @> each.number, FALSE) AS is_over, each.name = ANY (its_link.queues) AS allowed,
                CASE
                    WHEN place.queue_id IS NULL THEN 0
                    WHEN limited.most IS NULL THEN 1000
                    ELSE limited.most - (
                        SELECT count(*) FROM (SELECT FROM {schema}.entries WHERE queue_id = place.queue_id LIMIT limited.most) AS counted
                    ) - sum(each.count) OVER (PARTITION BY each.name ORDER BY each.nth) + each.count
                END::bigint AS room,
                coalesce(
                    CASE WHEN coalesce(here.received, 0) = each.after THEN each.told_chain ELSE there.chain END
                        = coalesce(here.chain, each.begins), FALSE
                ) AS is_equal
            FROM unnest(
                stream.incarnations, stream.numbers, stream.begins, stream.kinds, whole, stream.afters, stream.chains, note.names, fits, kept
            ) WITH ORDINALITY AS each (incarnation, number, begins, kind, count, after, told_chain, name, fits, kept, nth)
            LEFT JOIN {schema}.queues AS place ON place.queue = each.name
            LEFT JOIN LATERAL {schema}.whole_number(place.definition -> 'max_messages') AS limited (most) ON TRUE
            LEFT JOIN {schema}.link_streams_in AS here
                ON here.link_id = of_link AND here.incarnation = each.incarnation AND here.number = each.number
            LEFT JOIN {schema}.link_numbers AS numbers
                ON numbers.link_id = of_link AND NOT numbers.is_ours AND numbers.incarnation = each.incarnation
            LEFT JOIN unnest(message.streams, message.places, chains) AS there (stream, place, chain)
                ON there.stream = each.nth AND there.place = here.received - each.after
        ) AS told
        CROSS JOIN LATERAL {schema}.link_verdict(
            told.known_received, told.is_over, told.allowed, is_busy, told.room, told.kind, told.after, told.count, told.is_equal, told.fits, told.kept IS NOT NULL AND told.count = 0
        ) AS verdict
    ) AS one;
    -- Whole messages first, all at once. What can't be stored is the fault of its stream: then each stream is a savepoint.
    parted := ARRAY(
        SELECT CASE WHEN one.kept IS NULL THEN one.taken ELSE 0 END FROM unnest(fate.taken, kept) WITH ORDINALITY AS one (taken, kept, nth)
        ORDER BY one.nth
    );
    IF 0 < ANY (parted) THEN
        BEGIN
            PERFORM {schema}.link_publish(
                of_link, frame, heap, note.names, fate.queue_ids, fate.skipped, parted, message.streams, message.places, message.sizes,
                message.id_lengths, message.header_lengths, message.flags, message.ats
            );
        EXCEPTION WHEN SQLSTATE 'SQ004' OR data_exception THEN
            FOR faulty IN SELECT one.nth FROM unnest(parted) WITH ORDINALITY AS one (taken, nth) WHERE one.taken > 0 ORDER BY one.nth LOOP
                BEGIN
                    PERFORM {schema}.link_publish(
                        of_link, frame, heap, note.names, fate.queue_ids, fate.skipped, parted, of_one.streams, of_one.places, of_one.sizes,
                        of_one.id_lengths, of_one.header_lengths, of_one.flags, of_one.ats
                    )
                    FROM (
                        SELECT array_agg(one.stream ORDER BY one.at) AS streams, array_agg(one.place ORDER BY one.at) AS places,
                            array_agg(one.size ORDER BY one.at) AS sizes, array_agg(one.id_length ORDER BY one.at) AS id_lengths,
                            array_agg(one.header_length ORDER BY one.at) AS header_lengths, array_agg(one.flag ORDER BY one.at) AS flags,
                            array_agg(one.at ORDER BY one.at) AS ats
                        FROM unnest(
                            message.streams, message.places, message.sizes, message.id_lengths, message.header_lengths, message.flags, message.ats
                        ) AS one (stream, place, size, id_length, header_length, flag, at)
                        WHERE one.stream = faulty
                    ) AS of_one;
                EXCEPTION WHEN SQLSTATE 'SQ004' OR data_exception THEN
                    fate.taken[faulty] := 0;
                    fate.ends[faulty] := FALSE;
                    fate.answers[faulty] := 1;
                    fate.received[faulty] := fate.known_received[faulty];
                    fate.reasons[faulty] := SQLERRM;
                END;
            END LOOP;
        END;
    END IF;
    IF message.has_parts THEN
        FOR part IN
            SELECT told.nth, told.size, told.id_length, told.header_length, told.flags, here.*
            FROM unnest(message.streams, message.sizes, message.part_lengths, message.id_lengths, message.header_lengths, message.flags)
                AS told (nth, size, part_length, id_length, header_length, flags)
            JOIN {schema}.link_streams_in AS here ON here.link_id = of_link AND here.incarnation = stream.incarnations[told.nth]
                AND here.number = stream.numbers[told.nth]
            WHERE told.part_length < told.size AND fate.taken[told.nth] = 1
        LOOP
            faulty := part.nth;
            BEGIN
                -- A body without parts is put together where it is stored, and held nowhere beside.
                is_alone := jsonb_array_length(convert_from(part.part_header, 'UTF8')::jsonb -> 'parts') = 0;
                arrived := {schema}.link_publish(
                    of_link, convert_to(part.part_id, 'UTF8') || part.part_header || CASE WHEN is_alone THEN '' ELSE (
                        SELECT string_agg(one.body, ''::bytea ORDER BY one.fragment) FROM {schema}.link_fragments AS one
                        WHERE one.link_id = of_link AND one.incarnation = part.incarnation AND one.number = part.number
                    ) END, 0, note.names, fate.queue_ids, fate.skipped, fate.taken, ARRAY[part.nth], ARRAY[1::bigint],
                    ARRAY[CASE WHEN is_alone THEN 0 ELSE part.size END],
                    ARRAY[part.id_length], ARRAY[part.header_length], ARRAY[part.flags], ARRAY[0::bigint]
                );
                IF is_alone AND arrived IS NOT NULL THEN
                    UPDATE {schema}.spool AS stored SET body = (
                        SELECT string_agg(one.body, ''::bytea ORDER BY one.fragment) FROM {schema}.link_fragments AS one
                        WHERE one.link_id = of_link AND one.incarnation = part.incarnation AND one.number = part.number
                    ) WHERE stored.arrival_id = arrived AND stored.position = 0;
                END IF;
                DELETE FROM {schema}.link_fragments AS one
                WHERE one.link_id = of_link AND one.incarnation = part.incarnation AND one.number = part.number;
            EXCEPTION WHEN SQLSTATE 'SQ004' OR data_exception THEN
                fate.taken[faulty] := 0;
                fate.ends[faulty] := FALSE;
                fate.answers[faulty] := 1;
                fate.received[faulty] := fate.known_received[faulty];
                fate.reasons[faulty] := SQLERRM;
            END;
        END LOOP;
    END IF;
    messages := coalesce((SELECT sum(one) FROM unnest(fate.taken) AS one), 0);
    now_at := ARRAY(
        SELECT coalesce(there.chain, each.chain)
        FROM unnest(fate.chains, fate.skipped, fate.taken) WITH ORDINALITY AS each (chain, skipped, taken, nth)
        LEFT JOIN unnest(message.streams, message.places, chains) AS there (stream, place, chain)
            ON each.taken > 0 AND there.stream = each.nth AND there.place = each.skipped + each.taken
        ORDER BY each.nth
    );
    INSERT INTO {schema}.link_streams_in AS here (link_id, incarnation, number, destination, key, begins, received, chain)
    SELECT of_link, one.incarnation, one.number, one.name, one.key, one.begins, one.received, one.chain
    FROM unnest(
        stream.incarnations, stream.numbers, note.names, note.keys, stream.begins, fate.received, now_at, fate.taken, fate.ends
    ) AS one (incarnation, number, name, key, begins, received, chain, taken, ends)
    WHERE one.taken > 0 AND NOT one.ends
    ON CONFLICT (link_id, incarnation, number) DO UPDATE SET
        received = excluded.received, chain = excluded.chain, last_used = now(), part_id = NULL, part_header = NULL, part_digest = NULL,
        part_size = NULL;
    INSERT INTO {schema}.link_numbers AS here (link_id, is_ours, incarnation, highest, begins, over)
    SELECT of_link, FALSE, one.incarnation, max(one.number), (array_agg(one.begins ORDER BY one.number DESC))[1],
        coalesce(range_agg(int8range(one.number, one.number, '[]')) FILTER (WHERE one.ends), '{{}}')
    FROM unnest(stream.incarnations, stream.numbers, stream.begins, fate.taken, fate.ends) AS one (incarnation, number, begins, taken, ends)
    WHERE one.taken > 0 OR one.ends
    GROUP BY one.incarnation
    ON CONFLICT (link_id, is_ours, incarnation) DO UPDATE SET
        over = here.over + excluded.over, highest = greatest(here.highest, excluded.highest),
        begins = CASE WHEN excluded.highest > here.highest THEN excluded.begins ELSE here.begins END;
    DELETE FROM {schema}.link_streams_in AS here USING unnest(stream.incarnations, stream.numbers, fate.ends) AS one (incarnation, number, ends)
    WHERE one.ends AND here.link_id = of_link AND here.incarnation = one.incarnation AND here.number = one.number;
    PERFORM {schema}.link_note_restored(
        of_link, 'the other box ends a stream that can''t be made whole', one.name, nullif(one.key, ''), jsonb_build_object(
            'incarnation', one.incarnation, 'stream', one.number, 'lacks_above', least(one.known_received, one.lacks), 'through', one.after
        )
    )
    FROM unnest(stream.incarnations, stream.numbers, note.names, note.keys, fate.events, fate.known_received, stream.lacks, stream.afters)
        AS one (incarnation, number, name, key, event, known_received, lacks, after)
    WHERE one.event;
    -- So that the transaction has a commit which flushes the log.
    UPDATE {schema}.links SET received_at = clock_timestamp(), received = received + messages,
        replayed = replayed + coalesce((SELECT count(*) FROM unnest(message.flags) AS flag WHERE flag = 1), 0)
    WHERE link_id = of_link AND NOT is_busy AND (messages > 0 OR head.rows > 0 OR lost_incarnations IS NOT NULL);

    answers := {schema}.link_frame(2, head.sender, lost.how_many, head.rows, told.highest, 0, lost.records || told.answers || told.records || told.reasons)
    FROM (
        SELECT (
            SELECT count(*) FROM {schema}.link_numbers AS known WHERE known.link_id = of_link AND NOT known.is_ours
        ) AS highest, coalesce((
            SELECT string_agg(int8send(known.incarnation) || int8send(known.highest) || known.begins, ''::bytea ORDER BY known.incarnation)
            FROM {schema}.link_numbers AS known WHERE known.link_id = of_link AND NOT known.is_ours
        ), ''::bytea) AS records, coalesce((
            SELECT string_agg(
                int8send(one.incarnation) || int8send(one.number) || int4send(one.answer) || int4send(CASE
                    WHEN one.answer <> 1 THEN 0 WHEN one.reason = 'busy' THEN 1000 WHEN one.reason ^@ 'the queue' THEN 5000 ELSE 30000
                END) || int8send(one.received)
                || int4send(CASE WHEN one.answer = 2 THEN one.kept::integer ELSE 0 END)
                || int4send(octet_length(convert_to(left(one.reason, 250), 'UTF8'))) || one.chain,
                ''::bytea ORDER BY one.nth
            )
            FROM unnest(stream.incarnations, stream.numbers, fate.answers, fate.received, now_at, fate.reasons, kept)
                WITH ORDINALITY AS one (incarnation, number, answer, received, chain, reason, kept, nth)
        ), ''::bytea) AS answers, coalesce((
            SELECT string_agg(convert_to(left(one.reason, 250), 'UTF8'), ''::bytea ORDER BY one.nth)
            FROM unnest(fate.reasons) WITH ORDINALITY AS one (reason, nth)
        ), ''::bytea) AS reasons
    ) AS told;
END
$function$;

-- How statements over so many rows are planned: of few, to plan takes longer than to do; for many, a plan that doesn't know how many is wrong.
CREATE FUNCTION {schema}.link_plans(rows bigint) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN rows <= 50 THEN 'force_generic_plan' ELSE 'force_custom_plan' END;

-- `link_publish` as in 0068 and `link_answered` as in 0072, with that. Acknowledgements don't wait for the disk:
-- what a crash takes of them is asked for again, and nothing leaves before all that was committed earlier is on disk.
DO $all$
DECLARE
    one record;
    before text;
    after text;
BEGIN
    FOR one IN
        SELECT * FROM (VALUES
            ('link_publish', $q$    PERFORM set_config('plan_cache_mode', 'auto', TRUE);
$q$, $q$    PERFORM set_config('plan_cache_mode', !.link_plans(cardinality(come.ids)), TRUE);
$q$),
            ('link_answered', $q$    PERFORM !.link_durable();
$q$, $q$    PERFORM set_config('plan_cache_mode', !.link_plans(head.rows), TRUE), set_config('synchronous_commit', 'off', TRUE);
$q$)
        ) AS told (name, was, becomes)
    LOOP
        SELECT pg_get_functiondef(fn.oid) INTO STRICT before FROM pg_proc AS fn
        WHERE fn.pronamespace = '{schema}'::regnamespace AND fn.proname = one.name;
        after := replace(before, replace(one.was, '!', '{schema}'), replace(one.becomes, '!', '{schema}'));
        IF after = before THEN
            RAISE EXCEPTION '% isn''t as it was', one.name;
        END IF;
        EXECUTE after;
    END LOOP;
    -- And it tells the arrival; NULL: there is nothing new.
    SELECT pg_get_functiondef(fn.oid), fn.oid::regprocedure::text AS name INTO STRICT one FROM pg_proc AS fn
    WHERE fn.pronamespace = '{schema}'::regnamespace AND fn.proname = 'link_publish';
    EXECUTE 'DROP FUNCTION ' || one.name;
    EXECUTE regexp_replace(
        replace(replace(one.pg_get_functiondef, ' RETURNS void', ' RETURNS bigint'), '        RETURN;', '        RETURN NULL;'),
        'END\s*\$function\$\s*$', E'    RETURN arrival;\nEND\n$function$'
    );
    -- A digest of fragments, without a second copy of them.
    SELECT pg_get_functiondef(fn.oid) INTO STRICT before FROM pg_proc AS fn
    WHERE fn.pronamespace = '{schema}'::regnamespace AND fn.proname = 'link_keep_fragments';
    after := replace(before, replace($q$        SELECT sha256(int4send(header_length::integer) || header || string_agg(one.body, ''::bytea ORDER BY one.fragment))
        FROM !.link_fragments AS one
        WHERE one.link_id = of_link AND one.incarnation = of_incarnation AND one.number = of_number
$q$, '!', '{schema}'), replace($q$        SELECT sha256(string_agg(piece.body, ''::bytea ORDER BY piece.fragment))
        FROM (
            SELECT -1 AS fragment, int4send(header_length::integer) || header AS body
            UNION ALL
            SELECT one.fragment, one.body FROM !.link_fragments AS one
            WHERE one.link_id = of_link AND one.incarnation = of_incarnation AND one.number = of_number
        ) AS piece
$q$, '!', '{schema}'));
    IF after = before THEN
        RAISE EXCEPTION 'link_keep_fragments isn''t as it was';
    END IF;
    EXECUTE after;
END
$all$;
ALTER FUNCTION {schema}.link_answered(integer, bytea, uuid) SET plan_cache_mode = auto;

-- A trace finds a message on its way by its id.
CREATE INDEX link_messages_of_ids ON {schema}.link_messages USING hash (message_id);

-- A plan for each call takes longer than a round with one message.
ALTER FUNCTION {schema}.link_next(integer, bigint, boolean) SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION {schema}.link_collect(integer, integer) SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION {schema}.link_open(integer, integer[], text[], text[]) SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION {schema}.link_leave(bigint[]) SET plan_cache_mode = force_generic_plan;
