-- Streams over links: what is sent, taken in and acknowledged. All of it is statements over all streams of a batch.

-- Try to be the only one that sends (`is_ours`) or takes in over a link, until the transaction ends.
CREATE FUNCTION {schema}.link_lock(of_link integer, is_ours boolean) RETURNS boolean
LANGUAGE sql
RETURN pg_try_advisory_xact_lock(hashtextextended('{schema} link ' || of_link || CASE WHEN is_ours THEN ' out' ELSE ' in' END, 0));

-- What is said is on disk before it is said: a setting that says less holds for no transaction of a link.
CREATE FUNCTION {schema}.link_durable() RETURNS void
LANGUAGE plpgsql
AS $function$
BEGIN
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', TRUE);
    END IF;
END
$function$;

-- Note in both logs that a stream can't be made whole: an event of its group, and an entry in the operator log.
CREATE FUNCTION {schema}.link_note_restored(of_link integer, its_reason text, of_queue text, of_group text, its_details jsonb) RETURNS void
LANGUAGE plpgsql
AS $function$
DECLARE
    operation bigint;
    above bigint := (its_details ->> 'lacks_above')::bigint;
    through bigint := (its_details ->> 'through')::bigint;
BEGIN
    INSERT INTO {schema}.operator_log (actor, action, queue, group_key, reason, details)
    SELECT 'seriatim', 'stream restored', of_queue, of_group, its_reason,
        jsonb_build_object('link', one.link, 'box', one.peer) || its_details
    FROM {schema}.links AS one WHERE one.link_id = of_link
    RETURNING operation_id INTO operation;
    INSERT INTO {schema}.events (queue_id, group_key, incarnation, kind, first, last, count, at, operation_id)
    SELECT place.queue_id, of_group, coalesce(known.incarnation, place.incarnation), 'restored',
        CASE WHEN above < through THEN above + 1 END, CASE WHEN above < through THEN through END, greatest(1, through - above),
        clock_timestamp(), operation
    FROM {schema}.queues AS place
    LEFT JOIN {schema}.known_groups AS known ON known.queue_id = place.queue_id AND known.group_key = of_group
    WHERE place.queue = of_queue AND of_group IS NOT NULL AND place.definition #>> '{{policy,name}}' <> 'unordered';
    UPDATE {schema}.links SET restored = restored + 1 WHERE link_id = of_link;
END
$function$;

-- Open streams for keys that have none. Numbers go on above all that this box or the other one has known.
CREATE FUNCTION {schema}.link_open(of_link integer, of_queues integer[], destinations text[], keys text[]) RETURNS void
LANGUAGE plpgsql
AS $function$
DECLARE
    own bigint := (SELECT known.incarnation FROM {schema}.box_identity AS known);
    opened bigint;
BEGIN
    INSERT INTO {schema}.link_numbers (link_id, is_ours, incarnation, begins) VALUES (of_link, TRUE, own, '') ON CONFLICT DO NOTHING;
    SELECT known.highest INTO opened FROM {schema}.link_numbers AS known
    WHERE known.link_id = of_link AND known.is_ours AND known.incarnation = own;
    WITH fresh AS (
        INSERT INTO {schema}.link_streams_out (
            stream_id, link_id, incarnation, number, queue_id, destination, key, chain, sent_chain, kept_chain
        )
        SELECT made.stream_id, of_link, own, opened + made.nth, made.queue_id, made.destination, made.key, made.begins, made.begins, made.begins
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

-- Put messages behind the last ones of their open streams, in this order. A stream's rows are together. Returns how many.
CREATE FUNCTION {schema}.link_append(
    streams uuid[], message_ids text[], headers bytea[], bodies bytea[], marks boolean[], entered timestamptz[]
) RETURNS bigint
LANGUAGE plpgsql
AS $function$
DECLARE
    appended bigint;
BEGIN
    WITH given AS MATERIALIZED (
        SELECT told.*, sha256(int4send(octet_length(told.header)) || told.header || told.body) AS digest,
            dense_rank() OVER (ORDER BY told.stream_id) AS stream,
            row_number() OVER (PARTITION BY told.stream_id ORDER BY told.nth) AS place,
            row_number() OVER (ORDER BY told.stream_id, told.nth) AS at
        FROM unnest(streams, message_ids, headers, bodies, marks, entered)
            WITH ORDINALITY AS told (stream_id, message_id, header, body, replayed, entered_at, nth)
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
        SELECT chained.stream_id, chained.number, chained.message_id, given.header, given.body, chained.digest, chained.chain,
            given.replayed, given.entered_at
        FROM chained JOIN given USING (nth) ORDER BY nth
        RETURNING 1
    ), moved AS (
        UPDATE {schema}.link_streams_out AS known SET
            sent = last.number, sent_chain = last.chain, last_used = clock_timestamp(), ahead_bytes = known.ahead_bytes + last.bytes
        FROM (
            SELECT DISTINCT ON (chained.stream_id) chained.stream_id, chained.number, chained.chain,
                sum(octet_length(given.header) + octet_length(given.body)) OVER (PARTITION BY chained.stream_id) AS bytes
            FROM chained JOIN given USING (nth) ORDER BY chained.stream_id, chained.number DESC
        ) AS last
        WHERE known.stream_id = last.stream_id
    )
    SELECT count(*) INTO appended FROM stored;
    RETURN appended;
END
$function$;

-- Take entries out of their queues for good, and the bodies that nobody else needs, as `complete` does where nothing is kept.
CREATE FUNCTION {schema}.link_leave(entry_ids bigint[]) RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
SET jit = off
AS $function$
BEGIN
    WITH gone AS (
        DELETE FROM {schema}.entries WHERE entry_id = ANY (entry_ids) RETURNING arrival_id, position
    ), alone AS (
        DELETE FROM {schema}.spool AS stored USING gone
        WHERE stored.arrival_id = ANY (ARRAY[gone.arrival_id]) AND stored.position = ANY (ARRAY[gone.position])
            AND stored.destinations = 1
        RETURNING stored.arrival_id, stored.position
    )
    INSERT INTO {schema}.dropped (arrival_id, position)
    SELECT gone.arrival_id, gone.position FROM gone
    LEFT JOIN alone ON alone.arrival_id = gone.arrival_id AND alone.position = gone.position
    WHERE alone.arrival_id IS NULL;
END
$function$;

-- Put what waits in the remote queues of a link into streams, and complete it there; returns how many messages. The caller has the lock.
-- The window of a stream is 1,000 messages and 64 MiB, that of a link 1 GiB. Of a group that is suspended nothing goes.
CREATE FUNCTION {schema}.link_collect(of_link integer, at_most integer) RETURNS bigint
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
                    -- Of a stream that can take nothing now, and of a group that is suspended, nothing is read.
                    AND (place.unordered OR NOT EXISTS (
                        SELECT FROM {schema}.link_streams_out AS stream
                        WHERE stream.link_id = of_link AND stream.queue_id = place.queue_id AND stream.key = one.group_key
                            AND (stream.status <> 0 OR stream.sent - stream.acked >= 1000 OR stream.ahead_bytes >= 67108864)
                    )) AND NOT EXISTS (
                        SELECT FROM {schema}.known_groups AS known
                        WHERE known.queue_id = place.queue_id AND known.group_key = one.group_key AND known.flags > 1
                    )
                ORDER BY one.rank, one.arrival_id, one.position LIMIT at_most - collected
            ), edge AS MATERIALIZED (
                SELECT max(come.rank) AS rank, max(run.arrived_us) AS until
                FROM come JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[come.arrival_id])
                HAVING count(*) >= at_most - collected
            ), behind AS MATERIALIZED (
                -- They are read by the time at which they were published, and go in the order of commits. What is left for later may have been committed
                -- before some of these, while their transactions ran on: then these wait with it.
                SELECT DISTINCT ON (later.group_key) later.group_key, run.stamp, later.position
                FROM edge JOIN {schema}.entries AS later
                    ON later.queue_id = place.queue_id AND later.status = 'arrived' AND later.rank BETWEEN edge.rank AND edge.until
                JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[later.arrival_id])
                WHERE NOT EXISTS (SELECT FROM come WHERE come.entry_id = later.entry_id)
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
                LEFT JOIN {schema}.link_streams_out AS stream
                    ON stream.link_id = of_link AND stream.queue_id = place.queue_id AND stream.key = keyed.key
                LEFT JOIN behind ON behind.group_key = entry.group_key AND NOT place.unordered
                WHERE (entry.visible_at IS NULL OR entry.visible_at <= clock_timestamp())
                    AND (behind.group_key IS NULL OR entry.status = 'queued' OR (run.stamp, entry.position) < (behind.stamp, behind.position))
                    AND (stream.stream_id IS NULL
                        OR stream.status = 0 AND stream.sent - stream.acked < 1000 AND stream.ahead_bytes < 67108864)
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
            WHERE told.bytes <= too_large AND NOT EXISTS (
                SELECT FROM {schema}.link_streams_out AS stream
                WHERE stream.link_id = of_link AND stream.queue_id = place.queue_id AND stream.key = told.key
            )
        ) AS fresh HAVING count(*) > 0;
        collected := collected + (
            SELECT {schema}.link_append(
                array_agg(one.stream_id ORDER BY one.stamp, one.position, one.entry_id),
                array_agg(one.message_id ORDER BY one.stamp, one.position, one.entry_id),
                array_agg(one.header ORDER BY one.stamp, one.position, one.entry_id),
                array_agg(one.body ORDER BY one.stamp, one.position, one.entry_id),
                array_agg(one.replayed ORDER BY one.stamp, one.position, one.entry_id),
                array_agg(one.received_at ORDER BY one.stamp, one.position, one.entry_id)
            )
            FROM (
                SELECT stream.stream_id, stored.message_id, told.stamp, stored.position, told.entry_id, stored.received_at,
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
                    )::text, 'UTF8') AS header,
                    stored.body || CASE WHEN stored.parts IS NULL THEN '' ELSE (
                        SELECT string_agg(part.body, ''::bytea ORDER BY part.number) FROM {schema}.message_parts AS part
                        WHERE part.arrival_id = stored.arrival_id AND part.position = stored.position
                    ) END AS body
                FROM unnest(found.entry_ids, found.keys, found.arrival_ids, found.positions, found.sizes, found.stamps)
                    AS told (entry_id, key, arrival_id, position, bytes, stamp)
                JOIN {schema}.spool AS stored
                    ON stored.arrival_id = ANY (ARRAY[told.arrival_id]) AND stored.position = ANY (ARRAY[told.position])
                JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[told.arrival_id])
                JOIN {schema}.locations AS at ON at.location = run.location
                JOIN {schema}.link_streams_out AS stream
                    ON stream.link_id = of_link AND stream.queue_id = place.queue_id AND stream.key = told.key
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

-- Put what follows `acked` of a stream that is over into a new one, marked as replayed, and forget the old one.
CREATE FUNCTION {schema}.link_end(of_link integer, of_streams uuid[]) RETURNS void
LANGUAGE plpgsql
AS $function$
DECLARE
    gone record;
    moved record;
BEGIN
    UPDATE {schema}.link_numbers AS known SET over = known.over + ended.numbers
    FROM (
        SELECT stream.incarnation, range_agg(int8range(stream.number, stream.number, '[]')) AS numbers
        FROM {schema}.link_streams_out AS stream WHERE stream.stream_id = ANY (of_streams) GROUP BY 1
    ) AS ended
    WHERE known.link_id = of_link AND known.is_ours AND known.incarnation = ended.incarnation;
    SELECT array_agg(one.queue_id) AS queue_ids, array_agg(one.destination) AS destinations, array_agg(one.key) AS keys INTO moved
    FROM {schema}.link_streams_out AS one WHERE one.stream_id = ANY (of_streams) AND EXISTS (
        SELECT FROM {schema}.link_messages AS waiting WHERE waiting.stream_id = one.stream_id AND waiting.number > one.acked
    );
    SELECT array_agg(waiting.message_id ORDER BY one.number, waiting.number) AS ids, array_agg(waiting.header ORDER BY one.number, waiting.number) AS headers,
        array_agg(waiting.body ORDER BY one.number, waiting.number) AS bodies, array_agg(waiting.entered_at ORDER BY one.number, waiting.number) AS entered,
        array_agg(one.queue_id ORDER BY one.number, waiting.number) AS queue_ids, array_agg(one.key ORDER BY one.number, waiting.number) AS keys
    INTO gone
    FROM {schema}.link_streams_out AS one
    JOIN {schema}.link_messages AS waiting ON waiting.stream_id = one.stream_id AND waiting.number > one.acked
    WHERE one.stream_id = ANY (of_streams);
    DELETE FROM {schema}.link_streams_out WHERE stream_id = ANY (of_streams);
    IF gone.ids IS NOT NULL THEN
        PERFORM {schema}.link_open(of_link, moved.queue_ids, moved.destinations, moved.keys);
        PERFORM {schema}.link_append(
            ARRAY(
                SELECT stream.stream_id FROM unnest(gone.queue_ids, gone.keys) WITH ORDINALITY AS told (queue_id, key, nth)
                JOIN {schema}.link_streams_out AS stream
                    ON stream.link_id = of_link AND stream.queue_id = told.queue_id AND stream.key = told.key
                ORDER BY told.nth
            ),
            gone.ids, gone.headers, gone.bodies, array_fill(TRUE, ARRAY[cardinality(gone.ids)]), gone.entered
        );
    END IF;
END
$function$;

-- The next batch for the other box, and the token of this question; NULL where somebody else is sending. What is in it is asked for again
-- only when `next_try_at` has passed. `at_once`: now, whatever was noted. `more`: something else can be sent now.
CREATE FUNCTION {schema}.link_next(
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
    -- Even without streams: a row is written, so the log is on disk up to here when the batch leaves.
    UPDATE {schema}.links SET sent_at = clock_timestamp() WHERE link_id = of_link;

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
CREATE FUNCTION {schema}.link_take(of_link integer, frame bytea, OUT answers bytea, OUT messages bigint)
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

    PERFORM set_config('plan_cache_mode', 'auto', TRUE), set_config('enable_nestloop', 'on', TRUE);

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

    -- What becomes of each stream.
    SELECT array_agg(one.answer ORDER BY one.nth) AS answers, array_agg(one.received ORDER BY one.nth) AS received,
        array_agg(one.skipped ORDER BY one.nth) AS skipped, array_agg(one.taken ORDER BY one.nth) AS taken,
        array_agg(one.ends ORDER BY one.nth) AS ends, array_agg(one.event ORDER BY one.nth) AS events,
        array_agg(one.chain ORDER BY one.nth) AS chains,
        array_agg(one.known_received ORDER BY one.nth) AS known_received,
        array_agg(one.queue_id ORDER BY one.nth) AS queue_ids,
        array_agg(one.is_known ORDER BY one.nth) AS are_known,
        array_agg(CASE
            WHEN one.answer <> 1 THEN ''
            WHEN disabled IS NOT NULL THEN 'the box is disabled'
            WHEN is_busy THEN 'busy'
            WHEN one.queue_id IS NULL THEN format('there is no queue "%s"', one.name)
            ELSE format('the queue "%s" is full', one.name)
        END ORDER BY one.nth) AS reasons
    INTO fate
    FROM (
        SELECT told.*, verdict.* FROM (
            SELECT each.*, place.queue_id, here.number IS NOT NULL AS is_known,
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
    messages := coalesce((SELECT sum(one) FROM unnest(fate.taken) AS one), 0);
    now_at := ARRAY(
        SELECT coalesce(there.chain, each.chain)
        FROM unnest(fate.chains, fate.skipped, fate.taken) WITH ORDINALITY AS each (chain, skipped, taken, nth)
        LEFT JOIN unnest(message.streams, message.places, chains) AS there (stream, place, chain)
            ON each.taken > 0 AND there.stream = each.nth AND there.place = each.skipped + each.taken
        ORDER BY each.nth
    );

    IF messages > 0 THEN
        PERFORM {schema}.link_publish(
            of_link, frame, heap, note.names, fate.queue_ids, fate.skipped, ARRAY(
                SELECT CASE WHEN one.kept IS NULL THEN one.taken ELSE 0 END FROM unnest(fate.taken, kept) WITH ORDINALITY AS one (taken, kept, nth)
                ORDER BY one.nth
            ), message.streams, message.places, message.sizes, message.id_lengths, message.header_lengths, message.flags, message.ats
        );
        FOR part IN
            SELECT told.nth, told.size, told.id_length, told.header_length, told.flags, here.*
            FROM unnest(message.streams, message.sizes, message.part_lengths, message.id_lengths, message.header_lengths, message.flags)
                AS told (nth, size, part_length, id_length, header_length, flags)
            JOIN {schema}.link_streams_in AS here ON here.link_id = of_link AND here.incarnation = stream.incarnations[told.nth]
                AND here.number = stream.numbers[told.nth]
            WHERE told.part_length < told.size AND fate.taken[told.nth] = 1
        LOOP
            PERFORM {schema}.link_publish(
                of_link, convert_to(part.part_id, 'UTF8') || part.part_header || (
                    SELECT string_agg(one.body, ''::bytea ORDER BY one.fragment) FROM {schema}.link_fragments AS one
                    WHERE one.link_id = of_link AND one.incarnation = part.incarnation AND one.number = part.number
                ), 0, note.names, fate.queue_ids, fate.skipped, fate.taken, ARRAY[part.nth], ARRAY[1::bigint], ARRAY[part.size],
                ARRAY[part.id_length], ARRAY[part.header_length], ARRAY[part.flags], ARRAY[0::bigint]
            );
            DELETE FROM {schema}.link_fragments AS one
            WHERE one.link_id = of_link AND one.incarnation = part.incarnation AND one.number = part.number;
        END LOOP;
    END IF;
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

-- Keep the fragments that a part of a message brings, if they go on where those end that are here; returns how many are here then. -1: the
-- part contradicts what the message was announced with, or all are here and have another digest.
CREATE FUNCTION {schema}.link_keep_fragments(
    of_link integer, frame bytea, at bigint, of_incarnation bigint, of_number bigint, name text, key text, its_begins bytea, after bigint,
    told_chain bytea, its_digest bytea, its_size bigint, part_from bigint, part_length bigint, id_length bigint, header_length bigint,
    may_send boolean
) RETURNS bigint
LANGUAGE plpgsql
SET enable_seqscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    fragment_bytes CONSTANT bigint := 1048576;
    here {schema}.link_streams_in;
    its_id text := convert_from(substring(frame, (at + 1)::integer, id_length::integer), 'UTF8');
    header bytea := substring(frame, (at + id_length + 1)::integer, header_length::integer);
    there bigint;
BEGIN
    IF NOT may_send OR EXISTS (
        SELECT FROM {schema}.link_numbers AS known
        WHERE known.link_id = of_link AND NOT known.is_ours AND known.incarnation = of_incarnation AND known.over @> of_number
    ) THEN
        RETURN 0;
    END IF;
    SELECT * INTO here FROM {schema}.link_streams_in AS one
    WHERE one.link_id = of_link AND one.incarnation = of_incarnation AND one.number = of_number;
    IF coalesce(here.received, 0) <> after OR coalesce(here.chain, its_begins) <> told_chain THEN
        RETURN 0; -- as the chains will tell
    END IF;
    IF here.part_digest IS NULL THEN
        INSERT INTO {schema}.link_streams_in AS one (
            link_id, incarnation, number, destination, key, begins, received, chain, part_id, part_header, part_digest, part_size
        ) VALUES (of_link, of_incarnation, of_number, name, key, its_begins, 0, its_begins, its_id, header, its_digest, its_size)
        ON CONFLICT (link_id, incarnation, number) DO UPDATE SET
            part_id = excluded.part_id, part_header = excluded.part_header, part_digest = excluded.part_digest, part_size = excluded.part_size;
    ELSIF (here.part_id, here.part_header, here.part_digest, here.part_size) <> (its_id, header, its_digest, its_size) THEN
        RETURN -1;
    END IF;
    there := (
        SELECT count(*) FROM {schema}.link_fragments AS one
        WHERE one.link_id = of_link AND one.incarnation = of_incarnation AND one.number = of_number
    );
    IF part_from / fragment_bytes <= there THEN
        INSERT INTO {schema}.link_fragments (link_id, incarnation, number, fragment, body)
        SELECT of_link, of_incarnation, of_number, nth, substring(
            frame, (at + id_length + header_length + nth * fragment_bytes - part_from + 1)::integer,
            least(fragment_bytes, part_from + part_length - nth * fragment_bytes)::integer
        )
        FROM generate_series(there, (part_from + part_length - 1) / fragment_bytes) AS nth;
        there := greatest(there, (part_from + part_length - 1) / fragment_bytes + 1);
    END IF;
    IF there * fragment_bytes >= its_size AND its_digest <> (
        SELECT sha256(int4send(header_length::integer) || header || string_agg(one.body, ''::bytea ORDER BY one.fragment))
        FROM {schema}.link_fragments AS one
        WHERE one.link_id = of_link AND one.incarnation = of_incarnation AND one.number = of_number
    ) THEN
        RETURN -1;
    END IF;
    RETURN there;
END
$function$;

-- Publish messages of a batch: each is routed to the queue of its stream only, in order. What came before, by its id, is not published again.
CREATE FUNCTION {schema}.link_publish(
    of_link integer, frame bytea, heap bigint, names text[], queue_ids integer[], skipped bigint[], taken bigint[], streams bigint[],
    places bigint[], sizes bigint[], id_lengths bigint[], header_lengths bigint[], flags bigint[], ats bigint[]
) RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
SET jit = off
SET plan_cache_mode = auto
AS $function$
DECLARE
    most_boxes CONSTANT integer := 8;
    its_name text := (SELECT one.link FROM {schema}.links AS one WHERE one.link_id = of_link);
    own uuid := (SELECT known.box_id FROM {schema}.box_identity AS known);
    come record;
    arrival bigint;
    wrong text;
BEGIN
    -- As in `link_take`: no plan has a copy of the frame.
    PERFORM set_config('plan_cache_mode', 'force_generic_plan', TRUE);
    SELECT array_agg(one.stream ORDER BY one.nth) AS streams, array_agg(one.message_id ORDER BY one.nth) AS ids,
        array_agg(one.header ORDER BY one.nth) AS headers, array_agg(one.size ORDER BY one.nth) AS sizes,
        array_agg(one.flag ORDER BY one.nth) AS flags, array_agg(one.at ORDER BY one.nth) AS ats
    INTO come
    FROM (
        SELECT told.stream, told.nth, told.size, told.flag,
            convert_from(substring(frame, (heap + told.at + 1)::integer, told.id_length::integer), 'UTF8') AS message_id,
            convert_from(substring(frame, (heap + told.at + told.id_length + 1)::integer, told.header_length::integer), 'UTF8') AS header,
            heap + told.at + told.id_length + told.header_length AS at
        FROM unnest(streams, places, sizes, id_lengths, header_lengths, flags, ats)
            WITH ORDINALITY AS told (stream, place, size, id_length, header_length, flag, at, nth)
        WHERE told.place > skipped[told.stream] AND told.place <= skipped[told.stream] + taken[told.stream]
    ) AS one;
    SELECT format('message "%s": its header %s', left(one.message_id, 80), looked.problem) INTO wrong
    FROM unnest(come.ids, come.headers, come.sizes) AS one (message_id, header, size)
    CROSS JOIN LATERAL (SELECT {schema}.link_wrong_header(one.message_id, one.header, one.size) AS problem) AS looked
    WHERE looked.problem IS NOT NULL LIMIT 1;
    PERFORM {schema}.link_check(wrong IS NULL, wrong);

    PERFORM set_config('plan_cache_mode', 'auto', TRUE);
    WITH given AS MATERIALIZED (
        SELECT one.nth, one.message_id,
            'link:' || (one.header::jsonb #>> '{{sent_by,box}}') || ':' || (one.header::jsonb ->> 'space') AS id_space
        FROM unnest(come.ids, come.headers) WITH ORDINALITY AS one (message_id, header, nth)
    ), first AS MATERIALIZED (
        SELECT DISTINCT ON (given.message_id, given.id_space) given.* FROM given ORDER BY given.message_id, given.id_space, given.nth
    ), fresh AS (
        INSERT INTO {schema}.message_ids (message_id, id_space)
        SELECT first.message_id, first.id_space FROM first ORDER BY first.message_id, first.id_space
        ON CONFLICT DO NOTHING RETURNING message_ids.message_id, message_ids.id_space
    )
    SELECT array_agg(one.stream ORDER BY one.nth) AS streams, array_agg(one.message_id ORDER BY one.nth) AS ids,
        array_agg(one.id_space ORDER BY one.nth) AS spaces, array_agg(one.header ORDER BY one.nth) AS headers,
        array_agg(one.size ORDER BY one.nth) AS sizes, array_agg(one.flag ORDER BY one.nth) AS flags, array_agg(one.at ORDER BY one.nth) AS ats,
        count(*) AS count
    INTO come
    FROM (
        SELECT told.*, first.id_space
        FROM unnest(come.streams, come.ids, come.headers, come.sizes, come.flags, come.ats)
            WITH ORDINALITY AS told (stream, message_id, header, size, flag, at, nth)
        JOIN first USING (nth)
        JOIN fresh ON fresh.message_id = first.message_id AND fresh.id_space = first.id_space
    ) AS one;
    IF come.count = 0 THEN
        RETURN;
    END IF;
    INSERT INTO {schema}.arrivals (location, count, queue_ids) VALUES ('link:' || its_name, come.count, '{{0}}')
    RETURNING arrival_id INTO arrival;
    -- From here on nobody else gets a number of this location.
    SET CONSTRAINTS {schema}.number_at_commit IMMEDIATE;
    PERFORM set_config('plan_cache_mode', 'force_generic_plan', TRUE);
    INSERT INTO {schema}.spool (
        arrival_id, position, message_id, type, content_type, context, property_types, body, destinations, parts, id_space
    )
    SELECT arrival, one.nth - 1, one.message_id, one.fields ->> 'type', one.fields ->> 'content_type',
        one.fields -> 'context' || jsonb_build_object(
            'to', names[one.stream], 'location', 'link:' || its_name, 'link_sent_by', (one.fields -> 'sent_by')::text,
            'link_through', (one.fields -> 'through')::text
        ) || CASE WHEN one.flag = 1 THEN '{{"link_replayed": true}}' ELSE '{{}}' END::jsonb,
        nullif(one.fields -> 'property_types', '{{}}'),
        substring(frame, (one.at + 1)::integer, (one.size - one.in_parts)::integer),
        one.circles::integer, nullif(jsonb_array_length(one.fields -> 'parts'), 0), one.id_space
    FROM (
        SELECT told.*, read.fields, (
            SELECT coalesce(sum((part ->> 'size')::bigint), 0) FROM jsonb_array_elements(read.fields -> 'parts') AS part
        ) AS in_parts,
            read.fields -> 'through' ? own::text OR jsonb_array_length(read.fields -> 'through') > most_boxes AS circles
        FROM unnest(come.streams, come.ids, come.spaces, come.headers, come.sizes, come.flags, come.ats)
            WITH ORDINALITY AS told (stream, message_id, id_space, header, size, flag, at, nth)
        CROSS JOIN LATERAL (SELECT told.header::jsonb AS fields) AS read
    ) AS one;
    INSERT INTO {schema}.message_parts (arrival_id, position, number, name, content_type, body)
    SELECT arrival, one.nth - 1, part.number, part.told ->> 'name', part.told ->> 'content_type',
        substring(frame, (one.at + one.size - part.left_over + 1)::integer, (part.told ->> 'size')::integer)
    FROM unnest(come.headers, come.sizes, come.ats) WITH ORDINALITY AS one (header, size, at, nth)
    CROSS JOIN LATERAL (
        SELECT each.told, each.number, sum((each.told ->> 'size')::bigint) OVER (
            ORDER BY each.number ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
        ) AS left_over
        FROM jsonb_array_elements(one.header::jsonb -> 'parts') WITH ORDINALITY AS each (told, number)
    ) AS part;
    PERFORM set_config('plan_cache_mode', 'auto', TRUE);
    WITH told AS (
        SELECT one.nth - 1 AS position, names[one.stream] AS queue, queue_ids[one.stream] AS queue_id,
            one.header::jsonb -> 'through' ? own::text OR jsonb_array_length(one.header::jsonb -> 'through') > most_boxes AS circles
        FROM unnest(come.streams, come.headers) WITH ORDINALITY AS one (stream, header, nth)
    ), aside AS (
        INSERT INTO {schema}.aside (entry_id, queue_id, disposition, reason, arrival_id, position, priority, subscription_ids)
        SELECT nextval('{schema}.entry_ids'), told.queue_id, 'invalid', 'loop: it was in this box before, or went through more than 8 boxes',
            arrival, told.position, 5, '{{}}'
        FROM told WHERE told.circles
    )
    INSERT INTO {schema}.to_route (arrival_id, position, stamp, publisher, permitted)
    SELECT arrival, told.position, run.stamp, 'link:' || its_name, ARRAY[told.queue_id]
    FROM told JOIN {schema}.tickets AS run ON run.arrival_id = arrival WHERE NOT told.circles;
END
$function$;

-- Apply the answers of the other box; returns how many messages they acknowledge, NULL where somebody else is sending: then they are asked for
-- again. `of_token`: of the question.
CREATE FUNCTION {schema}.link_answered(of_link integer, frame bytea, of_token uuid) RETURNS bigint
LANGUAGE plpgsql
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    head record;
    its_link {schema}.links;
    base bigint;
    heap bigint;
    told record;
    known record;
    fate record;
    keeps boolean;
    acknowledged bigint;
    is_restored boolean := FALSE;
BEGIN
    SELECT * INTO head FROM {schema}.link_head(frame);
    PERFORM {schema}.link_check(head.kind = 2, 'a frame that should be answers is something else');
    IF NOT {schema}.link_lock(of_link, TRUE) THEN
        RETURN NULL;
    END IF;
    PERFORM {schema}.link_durable();
    SELECT * INTO its_link FROM {schema}.links WHERE link_id = of_link;
    keeps := coalesce((its_link.definition ->> 'keep_sent')::double precision, 0) > 0;
    base := 64 + 24 * head.ranges;
    heap := base + 72 * head.rows + 48 * head.messages;
    SELECT array_agg(one.incarnation ORDER BY one.nth) AS incarnations, array_agg(one.number ORDER BY one.nth) AS numbers,
        array_agg(one.answer ORDER BY one.nth) AS answers, array_agg(one.wait_ms ORDER BY one.nth) AS waits,
        array_agg(one.fragment ORDER BY one.nth) AS fragments,
        array_agg(one.received ORDER BY one.nth) AS received, array_agg(one.length ORDER BY one.nth) AS lengths,
        array_agg(one.chain ORDER BY one.nth) AS chains, array_agg(one.at::bigint ORDER BY one.nth) AS ats,
        coalesce(sum(one.length), 0)::bigint AS bytes, count(DISTINCT (one.incarnation, one.number)) AS distinct_ones,
        bool_and(
            one.incarnation BETWEEN 1 AND 9007199254740991 AND one.number BETWEEN 1 AND 9007199254740991 AND one.answer <= 4
            AND one.received BETWEEN 0 AND 9007199254740991 AND one.length <= 1000 AND (one.answer = 1 OR one.wait_ms = 0)
            AND (one.answer = 2 OR one.fragment = 0) AND one.fragment <= 512
        ) AS are_right
    INTO told
    FROM (
        SELECT read.*, sum(read.length) OVER (ORDER BY read.nth) - read.length AS at
        FROM (
            SELECT nth, {schema}.link_u8(frame, row.at) AS incarnation, {schema}.link_u8(frame, row.at + 8) AS number,
                {schema}.link_u4(frame, row.at + 16) AS answer, {schema}.link_u4(frame, row.at + 20) AS wait_ms,
                {schema}.link_u8(frame, row.at + 24) AS received, {schema}.link_u4(frame, row.at + 32) AS fragment,
                {schema}.link_u4(frame, row.at + 36) AS length, substring(frame, (row.at + 41)::integer, 32) AS chain
            FROM generate_series(1, head.rows) AS nth CROSS JOIN LATERAL (SELECT base + 72 * (nth - 1) AS at) AS row
        ) AS read
    ) AS one;
    PERFORM {schema}.link_check(told.are_right IS NOT FALSE, 'an answer has numbers or lengths that none can have');
    PERFORM {schema}.link_check(told.distinct_ones = head.rows, 'a stream is answered twice');
    PERFORM {schema}.link_check(
        heap + told.bytes = octet_length(frame) - 32, 'the heap of a frame isn''t as long as its records tell'
    );
    SELECT array_agg(one.incarnation) AS incarnations, array_agg(one.number) AS numbers, array_agg(one.begins) AS begins,
        count(DISTINCT one.incarnation) AS distinct_ones,
        bool_and(one.incarnation BETWEEN 1 AND 9007199254740991 AND one.number BETWEEN 1 AND 9007199254740991) AS are_right
    INTO known
    FROM (
        SELECT {schema}.link_u8(frame, row.at) AS incarnation, {schema}.link_u8(frame, row.at + 8) AS number,
            substring(frame, (row.at + 17)::integer, 32) AS begins
        FROM generate_series(1, head.messages) AS nth CROSS JOIN LATERAL (SELECT base + 72 * head.rows + 48 * (nth - 1) AS at) AS row
    ) AS one;
    PERFORM {schema}.link_check(
        known.are_right IS NOT FALSE AND known.distinct_ones = head.messages, 'a stream has a number that none can have'
    );

    -- What is over here and not known there is lost, and nobody will send it again.
    PERFORM {schema}.link_note_restored(
        of_link, 'streams are over, and the other box has no note of them: it seems to have gone back', NULL, NULL,
        jsonb_build_object('incarnation', one.incarnation, 'streams', one.numbers::text)
    ) FROM {schema}.link_ranges(frame, head.ranges) AS one;
    -- A number that the other box has known and this one hasn't, or means another stream by: this box was restored. It goes on above.
    SELECT bool_or(
        there.number > coalesce(here.highest, 0)
        OR stream.stream_id IS NOT NULL AND there.begins <> sha256('seriatim stream'::bytea || uuid_send(stream.stream_id))
    ) INTO is_restored
    FROM unnest(known.incarnations, known.numbers, known.begins) AS there (incarnation, number, begins)
    LEFT JOIN {schema}.link_numbers AS here
        ON here.link_id = of_link AND here.is_ours AND here.incarnation = there.incarnation
    LEFT JOIN {schema}.link_streams_out AS stream
        ON stream.link_id = of_link AND stream.incarnation = there.incarnation AND stream.number = there.number;
    IF is_restored THEN
        INSERT INTO {schema}.link_numbers AS here (link_id, is_ours, incarnation, highest, begins)
        SELECT of_link, TRUE, there.incarnation, there.number, there.begins
        FROM unnest(known.incarnations, known.numbers, known.begins) AS there (incarnation, number, begins)
        ON CONFLICT (link_id, is_ours, incarnation) DO UPDATE SET highest = greatest(here.highest, excluded.highest);
        UPDATE {schema}.links SET replayed_through = (SELECT last_value FROM {schema}.entry_ids) WHERE link_id = of_link;
        PERFORM {schema}.link_note_restored(
            of_link, 'the other box knows a stream that this one doesn''t: this box seems to have gone back', NULL, NULL,
            jsonb_build_object('incarnations', known.incarnations, 'streams', known.numbers)
        );
    END IF;

    SELECT array_agg(one.stream_id ORDER BY one.nth) AS ids, array_agg(one.decision ORDER BY one.nth) AS decisions,
        array_agg(one.acked ORDER BY one.nth) AS acked, array_agg(one.through ORDER BY one.nth) AS through,
        array_agg(one.chain ORDER BY one.nth) AS chains, array_agg(one.wait_ms ORDER BY one.nth) AS waits,
        array_agg(one.fragment ORDER BY one.nth) AS fragments,
        array_agg(one.reason ORDER BY one.nth) AS reasons, array_agg(one.side ORDER BY one.nth) AS sides,
        array_agg(one.above ORDER BY one.nth) AS above, array_agg(one.unproven ORDER BY one.nth) AS unproven
    INTO fate
    FROM (
        SELECT each.nth, stream.stream_id, stream.acked, each.chain, each.wait_ms, each.fragment, each.reason, decided.*
        FROM (
            SELECT row.*, nullif(convert_from(substring(frame, (heap + row.at + 1)::integer, row.length::integer), 'UTF8'), '') AS reason
            FROM unnest(
                told.incarnations, told.numbers, told.answers, told.waits, told.received, told.chains, told.ats, told.lengths, told.fragments
            ) WITH ORDINALITY AS row (incarnation, number, answer, wait_ms, received, chain, at, length, fragment, nth)
        ) AS each
        JOIN {schema}.link_streams_out AS stream
            ON stream.link_id = of_link AND stream.incarnation = each.incarnation AND stream.number = each.number
        LEFT JOIN {schema}.link_messages AS at ON at.stream_id = stream.stream_id AND at.number = each.received
        LEFT JOIN unnest(known.incarnations, known.numbers) AS there (incarnation, number) ON there.incarnation = each.incarnation
        CROSS JOIN LATERAL {schema}.link_decision(
            stream.acked, stream.sent, stream.kept, stream.status, each.answer::integer, each.received,
            coalesce(each.chain = CASE
                WHEN each.received = stream.acked THEN stream.chain
                WHEN each.received = stream.kept THEN stream.kept_chain
                ELSE at.chain
            END, FALSE),
            coalesce(stream.token = of_token, FALSE), coalesce(each.number <= there.number, FALSE)
        ) AS decided
    ) AS one;

    -- What is acknowledged, or is sent again from there on.
    WITH moved AS MATERIALIZED (
        SELECT one.* FROM unnest(fate.ids, fate.decisions, fate.acked, fate.through, fate.chains)
            AS one (stream_id, decision, acked, through, chain)
        WHERE one.through <> one.acked
    ), sizes AS (
        SELECT moved.stream_id, sum(octet_length(waiting.header) + octet_length(waiting.body)) AS bytes
        FROM moved JOIN {schema}.link_messages AS waiting ON waiting.stream_id = moved.stream_id
            AND waiting.number > least(moved.acked, moved.through) AND waiting.number <= greatest(moved.acked, moved.through)
        GROUP BY 1
    ), noted AS (
        UPDATE {schema}.link_streams_out AS stream SET
            status = CASE WHEN moved.decision = 3 THEN 0 ELSE stream.status END,
            marked = CASE WHEN moved.decision = 3 THEN greatest(stream.marked, stream.acked) ELSE stream.marked END,
            acked = moved.through, chain = moved.chain, token = NULL, last_used = clock_timestamp(), attempts = 0,
            next_try_at = '-infinity', last_error = NULL, fragment = 0,
            ahead_bytes = greatest(0, stream.ahead_bytes + CASE WHEN moved.decision = 3 THEN sizes.bytes ELSE -sizes.bytes END),
            kept = CASE WHEN keeps THEN stream.kept ELSE moved.through END,
            kept_chain = CASE WHEN keeps THEN stream.kept_chain ELSE moved.chain END
        FROM moved LEFT JOIN sizes USING (stream_id) WHERE stream.stream_id = moved.stream_id
    )
    SELECT coalesce(sum(moved.through - moved.acked) FILTER (WHERE moved.decision <> 3), 0)::bigint INTO acknowledged FROM moved;
    IF keeps THEN
        UPDATE {schema}.link_messages AS waiting SET acked_at = clock_timestamp()
        FROM unnest(fate.ids, fate.decisions, fate.acked, fate.through) AS one (stream_id, decision, acked, through)
        WHERE one.decision <= 2 AND waiting.stream_id = one.stream_id AND waiting.number > one.acked AND waiting.number <= one.through;
    ELSE
        DELETE FROM {schema}.link_messages AS waiting
        USING unnest(fate.ids, fate.decisions, fate.acked, fate.through) AS one (stream_id, decision, acked, through)
        WHERE one.decision <= 2 AND waiting.stream_id = one.stream_id AND waiting.number > one.acked AND waiting.number <= one.through;
    END IF;
    UPDATE {schema}.link_streams_out AS stream SET
        next_try_at = CASE WHEN one.wait_ms > 0 THEN clock_timestamp() + make_interval(secs => one.wait_ms / 1000.0) ELSE stream.next_try_at END,
        last_error = coalesce(one.reason, 'the other box refuses it: the stream''s queue isn''t among those that it has named for this box')
    FROM unnest(fate.ids, fate.decisions, fate.waits, fate.reasons) AS one (stream_id, decision, wait_ms, reason)
    WHERE one.decision = 1 AND stream.stream_id = one.stream_id AND (one.wait_ms > 0 OR stream.status = 0);

    UPDATE {schema}.link_streams_out AS stream SET fragment = one.fragment, attempts = 0, next_try_at = '-infinity', last_error = NULL
    FROM unnest(fate.ids, fate.decisions, fate.fragments) AS one (stream_id, decision, fragment)
    WHERE one.decision = 2 AND stream.stream_id = one.stream_id;

    -- What can't be made whole.
    PERFORM {schema}.link_note_restored(
        of_link, 'a stream can''t be made whole, and goes on as a new one', place.queue, nullif(stream.key, ''), jsonb_build_object(
            'incarnation', stream.incarnation, 'stream', stream.number, 'lacks_above', one.above, 'unproven_above', one.unproven,
            'through', stream.acked, 'went_back', (ARRAY['unknown', 'this box', 'the other box'])[one.side + 1]
        )
    )
    FROM unnest(fate.ids, fate.decisions, fate.sides, fate.above, fate.unproven) AS one (stream_id, decision, side, above, unproven)
    JOIN {schema}.link_streams_out AS stream ON stream.stream_id = one.stream_id
    LEFT JOIN {schema}.queues AS place ON place.queue_id = stream.queue_id
    WHERE one.decision IN (5, 6);
    UPDATE {schema}.link_streams_out AS stream SET
        status = 2, lacks = one.above, token = NULL, attempts = 0, next_try_at = '-infinity', kept = stream.acked, kept_chain = stream.chain,
        last_error = 'it can''t be made whole'
    FROM unnest(fate.ids, fate.decisions, fate.above) AS one (stream_id, decision, above)
    WHERE one.decision = 5 AND stream.stream_id = one.stream_id;
    PERFORM {schema}.link_end(of_link, array_agg(one.stream_id))
    FROM unnest(fate.ids, fate.decisions) AS one (stream_id, decision) WHERE one.decision IN (4, 6) HAVING count(*) > 0;
    UPDATE {schema}.links SET sent = sent + acknowledged WHERE link_id = of_link AND acknowledged > 0;
    RETURN acknowledged;
END
$function$;

-- A refusal: nothing of a frame was used. `why`: for people.
CREATE FUNCTION {schema}.link_refusal(receiver uuid, why text) RETURNS bytea
LANGUAGE sql
RETURN {schema}.link_frame(4, receiver, 0, 0, 0, 0, convert_to(left(why, 250), 'UTF8'));

-- The link of the role that calls, where it speaks as the box that a frame names; NULL: there is none.
CREATE FUNCTION {schema}.link_of(sender uuid) RETURNS integer
LANGUAGE sql STABLE
RETURN (
    SELECT one.link_id FROM {schema}.links AS one WHERE one.peer = sender AND one.role = to_regrole(quote_ident({schema}.caller()))
);

-- The two doors of another box. They take a frame and give one; nothing that a peer says makes them fail. What a peer isn't granted is
-- answered `gone`, whatever exists.
CREATE FUNCTION {schema}.link_push(frame bytea) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '2s'
SET standard_conforming_strings = on
SET jit = off
AS $function$
DECLARE
    head record;
    own uuid := (SELECT known.box_id FROM {schema}.box_identity AS known);
    of_link integer;
    sender uuid := '00000000-0000-0000-0000-000000000000';
BEGIN
    SELECT * INTO head FROM {schema}.link_head(frame);
    sender := head.sender;
    of_link := {schema}.link_of(head.sender);
    IF of_link IS NULL THEN
        IF head.kind = 1 THEN
            RETURN {schema}.link_gone(frame, head.sender, head.ranges, head.rows);
        END IF;
        RETURN {schema}.link_refusal(sender, 'nothing is known of this');
    END IF;
    IF head.receiver <> own THEN
        RETURN {schema}.link_refusal(sender, format('the frame is for the box %s, and this is %s', head.receiver, own));
    END IF;
    IF head.kind = 1 THEN
        RETURN (SELECT done.answers FROM {schema}.link_take(of_link, frame) AS done);
    ELSIF head.kind = 2 THEN
        PERFORM {schema}.link_answered(of_link, frame, nullif(current_setting('seriatim.link_question', TRUE), '')::uuid);
        -- Answers to nothing: the word that these were used.
        RETURN {schema}.link_frame(2, sender, 0, 0, 0, 0, '');
    END IF;
    RETURN {schema}.link_refusal(sender, 'batches and answers are pushed');
EXCEPTION
    WHEN SQLSTATE 'SQ004' OR data_exception THEN
        RETURN {schema}.link_refusal(sender, SQLERRM);
    WHEN lock_not_available OR serialization_failure OR deadlock_detected OR unique_violation THEN
        RETURN {schema}.link_refusal(sender, 'the box is busy: ask again');
    WHEN OTHERS THEN
        -- A peer is told nothing of what is in this box; its log has it.
        RAISE WARNING 'a link failed: % (%)', SQLERRM, SQLSTATE;
        RETURN {schema}.link_refusal(sender, 'the box can''t take it: its log says why');
END
$function$;

-- What waits here for the box that asks, as a batch. Its question is remembered in the session: the answers come by the same one.
CREATE FUNCTION {schema}.link_fetch(frame bytea) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '2s'
SET standard_conforming_strings = on
SET jit = off
AS $function$
DECLARE
    head record;
    own uuid := (SELECT known.box_id FROM {schema}.box_identity AS known);
    of_link integer;
    sender uuid := '00000000-0000-0000-0000-000000000000';
    next record;
BEGIN
    SELECT * INTO head FROM {schema}.link_head(frame);
    sender := head.sender;
    PERFORM {schema}.link_check(head.kind = 3 AND octet_length(frame) = 96, 'a frame that should be a request is something else');
    of_link := {schema}.link_of(head.sender);
    IF of_link IS NULL OR head.receiver <> own THEN
        RETURN {schema}.link_refusal(sender, CASE WHEN of_link IS NULL THEN 'nothing is known of this'
            ELSE format('the frame is for the box %s, and this is %s', head.receiver, own) END);
    END IF;
    IF {schema}.disabled_because() IS NOT NULL THEN
        RETURN {schema}.link_refusal(sender, 'the box is disabled');
    END IF;
    SELECT * INTO next FROM {schema}.link_next(of_link, head.most_bytes, FALSE);
    IF next.frame IS NULL THEN
        RETURN {schema}.link_refusal(sender, 'the box is busy: ask again');
    END IF;
    PERFORM set_config('seriatim.link_question', next.of_token::text, FALSE);
    RETURN next.frame;
EXCEPTION
    WHEN SQLSTATE 'SQ004' OR data_exception THEN
        RETURN {schema}.link_refusal(sender, SQLERRM);
    WHEN lock_not_available OR serialization_failure OR deadlock_detected OR unique_violation THEN
        RETURN {schema}.link_refusal(sender, 'the box is busy: ask again');
    WHEN OTHERS THEN
        -- A peer is told nothing of what is in this box; its log has it.
        RAISE WARNING 'a link failed: % (%)', SQLERRM, SQLSTATE;
        RETURN {schema}.link_refusal(sender, 'the box can''t take it: its log says why');
END
$function$;

-- The answers to a batch of a peer that isn't granted: all of its streams are gone.
CREATE FUNCTION {schema}.link_gone(frame bytea, sender uuid, ranges bigint, rows bigint) RETURNS bytea
LANGUAGE plpgsql
AS $function$
DECLARE
    told record;
BEGIN
    SELECT
        coalesce(string_agg(
            substring(frame, (place + 1)::integer, 16) || int4send(3) || int4send(0) || int8send(0) || int4send(0) || int4send(0)
            || decode(repeat('00', 32), 'hex'), ''::bytea ORDER BY place
        ), ''::bytea) AS answers,
        bool_and(
            {schema}.link_u8(frame, place) BETWEEN 1 AND 9007199254740991 AND {schema}.link_u8(frame, place + 8) BETWEEN 1 AND 9007199254740991
        ) IS NOT FALSE AND count(DISTINCT substring(frame, (place + 1)::integer, 16)) = rows AS are_right
    INTO told
    FROM generate_series(1, rows) AS nth CROSS JOIN LATERAL (SELECT 64 + 24 * ranges + 96 * (nth - 1) AS place) AS one;
    PERFORM {schema}.link_check(told.are_right, 'a stream has a number that none can have, or is in a batch twice');
    RETURN {schema}.link_frame(2, sender, 0, rows, 0, 0, told.answers);
END
$function$;

-- A request for what waits at the other box. A box that isn't known yet is asked by an id of zeros, and its refusal tells its own.
CREATE FUNCTION {schema}.link_request(of_link integer, largest bigint) RETURNS bytea
LANGUAGE sql STABLE
RETURN {schema}.link_frame(3, coalesce((
    SELECT one.peer FROM {schema}.links AS one WHERE one.link_id = of_link
), '00000000-0000-0000-0000-000000000000'), 0, 0, 0, largest, '');

-- Let a role speak as another box: it may call the two doors, and nothing else.
CREATE FUNCTION {schema}.link_let_in(who regrole) RETURNS void
LANGUAGE plpgsql
AS $function$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA %s TO %s', '{schema}'::regnamespace, who);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s, %s TO %s', '{schema}.link_push(bytea)'::regprocedure, '{schema}.link_fetch(bytea)'::regprocedure, who);
END
$function$;

-- Take that back, unless it speaks as another one; its other rights in the box stay.
CREATE FUNCTION {schema}.link_shut_out(who regrole) RETURNS void
LANGUAGE plpgsql
AS $function$
BEGIN
    IF EXISTS (SELECT FROM {schema}.links WHERE role = who) OR NOT EXISTS (SELECT FROM pg_roles WHERE oid = who) THEN
        RETURN;
    END IF;
    IF NOT EXISTS (SELECT FROM {schema}.grants WHERE role = who) THEN
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s, %s FROM %s', '{schema}.link_push(bytea)'::regprocedure, '{schema}.link_fetch(bytea)'::regprocedure, who);
        EXECUTE format('REVOKE USAGE ON SCHEMA %s FROM %s', '{schema}'::regnamespace, who);
    END IF;
END
$function$;

-- Of a copy: its pairs are the original's, and so is what waits to be sent. Returns how many messages are deleted.
CREATE FUNCTION {schema}.drop_link_pairs() RETURNS bigint
LANGUAGE plpgsql
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    gone bigint := (SELECT coalesce(sum(sent - acked), 0) FROM {schema}.link_streams_out WHERE acked < sent);
    place record;
BEGIN
    FOR place IN SELECT queue_id FROM {schema}.queues WHERE definition ->> 'at' IS NOT NULL LOOP
        gone := gone + (SELECT count(*) FROM {schema}.entries WHERE queue_id = place.queue_id);
        PERFORM {schema}.link_leave(ARRAY(SELECT entry_id FROM {schema}.entries WHERE queue_id = place.queue_id));
    END LOOP;
    DELETE FROM {schema}.link_streams_out WHERE TRUE;
    DELETE FROM {schema}.link_streams_in WHERE TRUE;
    DELETE FROM {schema}.link_numbers WHERE TRUE;
    UPDATE {schema}.links SET peer = NULL, role = NULL, replayed_through = 0 WHERE TRUE;
    RETURN gone;
END
$function$;
