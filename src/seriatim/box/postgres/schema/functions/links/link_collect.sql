-- Move the messages in the remote queues of a link into streams, and complete them there. Return how many. The window
-- of a stream is 1,000 messages and 64 MiB, that of a link 1 GiB. A suspended group sends nothing. The caller has the
-- lock to send over the link.
-- is: generic plan, no seqscan, no jit
CREATE OR REPLACE FUNCTION {schema}.link_collect(of_link integer, at_most integer) RETURNS bigint
AS $function$
DECLARE
    place record;
    portion record;
    own uuid := (SELECT known.box_id FROM {schema}.box_identity AS known);
    its_link {schema}.known_links;
    too_large CONSTANT bigint := 600000000;
    stopped integer[];
    ahead bigint;
    collected bigint := 0;
BEGIN
    SELECT * INTO its_link FROM {schema}.known_links WHERE link_id = of_link;
    ahead := (
        SELECT coalesce(sum(known.ahead_bytes), 0) FROM {schema}.link_streams_out AS known
        WHERE known.link_id = of_link AND known.acked < known.sent
    );
    FOR place IN
        SELECT known.queue_id, known.queue, coalesce(known.definition ->> 'remote', known.queue) AS destination,
            known.definition #>> '{policy,name}' = 'unordered' AS unordered,
            coalesce((known.definition ->> 'lanes')::bigint, 1) AS lanes
        FROM {schema}.queues AS known
        WHERE known.definition ->> 'at' = its_link.link AND known.enabled ORDER BY known.queue_id
    LOOP
        EXIT WHEN ahead >= 1073741824 OR collected >= at_most;
        stopped := ARRAY(
            SELECT one.subscription_id FROM {schema}.known_subscriptions AS one
            WHERE one.queue_id = place.queue_id AND one.state <> 'started'
        );
        SELECT array_agg(one.entry_id) AS entry_ids, array_agg(one.key) AS keys,
            array_agg(one.arrival_id) AS arrival_ids,
            array_agg(one.position) AS positions, array_agg(one.bytes) AS sizes, array_agg(one.stamp) AS stamps,
            array_agg(one.serial) AS serials,
            array_agg(DISTINCT one.group_key) FILTER (WHERE one.judged) AS judged
        INTO portion
        FROM (
            WITH first AS MATERIALIZED (
                SELECT one.* FROM {schema}.entries AS one
                WHERE one.queue_id = place.queue_id AND one.status = 'arrived'
                    AND (one.visible_at IS NULL OR one.visible_at <= clock_timestamp())
                    AND (one.subscription_ids <> '{}' AND one.subscription_ids <@ stopped) IS NOT TRUE
                    -- Nothing is read of a stream without room, or of a suspended group. Each is
                    -- looked up: a join would read all streams and all groups of the queue.
                    AND (place.unordered OR coalesce((
                        SELECT stream.status = {status.OPEN} AND stream.sent - stream.acked < {WINDOW}
                            AND stream.ahead_bytes < {WINDOW_BYTES}
                        FROM {schema}.link_streams_out AS stream
                        WHERE stream.queue_id = place.queue_id AND stream.key = one.group_key
                    ), TRUE)) AND coalesce((
                        SELECT known.flags <= {flag.BEGUN} FROM {schema}.known_groups AS known
                        WHERE known.queue_id = place.queue_id AND known.group_key = one.group_key
                    ), TRUE)
                ORDER BY one.rank, one.serial LIMIT at_most - collected
            ), edge AS MATERIALIZED (
                SELECT max(first.rank) AS rank, max(run.arrived_us) AS until
                FROM first JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[first.arrival_id])
                HAVING count(*) >= at_most - collected AND NOT place.unordered
            ), come AS MATERIALIZED (
                -- They are read by their time of publishing, and leave in the order of commits.
                -- Messages that are left for later may have been committed before some of these,
                -- while their transactions ran on: then they leave in their place.
                SELECT one.*
                FROM (
                    SELECT * FROM first
                    UNION ALL
                    SELECT later.* FROM edge CROSS JOIN LATERAL (
                        SELECT one.* FROM {schema}.entries AS one
                        WHERE one.queue_id = place.queue_id AND one.status = 'arrived'
                            AND one.rank BETWEEN edge.rank AND edge.until OFFSET 0
                    ) AS later
                    WHERE later.entry_id NOT IN (SELECT first.entry_id FROM first)
                        AND later.group_key IN (SELECT first.group_key FROM first)
                        AND (later.visible_at IS NULL OR later.visible_at <= clock_timestamp())
                        AND (later.subscription_ids <> '{}' AND later.subscription_ids <@ stopped) IS NOT TRUE
                ) AS one
                JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[one.arrival_id])
                ORDER BY run.stamp, one.serial LIMIT at_most - collected
            )
            SELECT waiting.*,
                row_number() OVER (
                    PARTITION BY waiting.key ORDER BY waiting.stamp, waiting.serial
                ) + waiting.ahead AS place,
                sum(waiting.bytes) OVER (
                    PARTITION BY waiting.key ORDER BY waiting.stamp, waiting.serial
                ) + waiting.ahead_bytes AS bytes_there,
                sum(waiting.bytes) OVER (
                    ORDER BY waiting.stamp, waiting.serial
                ) - waiting.bytes AS bytes_before
            FROM (
                SELECT entry.entry_id, entry.arrival_id, entry.position, entry.serial, entry.group_key,
                    entry.status = 'queued' AS judged,
                    CASE entry.status WHEN 'queued' THEN entry.ordinal - {FOREVER} ELSE run.stamp END AS stamp,
                        keyed.key,
                    coalesce(stream.sent - stream.acked, 0) AS ahead, coalesce(stream.ahead_bytes, 0) AS ahead_bytes,
                    2000 + octet_length(stored.context::text) + CASE
                        WHEN octet_length(stored.context::text) > 1000000 THEN 1000000000000
                        ELSE 0
                    END
                        + octet_length(stored.body)::bigint + CASE WHEN stored.parts IS NULL THEN 0 ELSE (
                        SELECT sum(octet_length(part.body)) FROM {schema}.message_parts AS part
                        WHERE part.arrival_id = stored.arrival_id AND part.position = stored.position
                    ) END AS bytes
                FROM (
                    SELECT come.* FROM come
                    UNION ALL (
                        -- Messages that were judged because of an operator's action on their
                        -- group.
                        SELECT one.* FROM {schema}.known_groups AS known
                        JOIN {schema}.entries AS one
                            ON one.queue_id = known.queue_id AND one.group_key = known.group_key
                                AND one.status = 'queued'
                        WHERE known.queue_id = place.queue_id AND known.ready_rank IS NOT NULL
                            AND known.flags <= {flag.BEGUN}
                        ORDER BY known.ready_rank, one.ordinal LIMIT at_most - collected
                    )
                ) AS entry
                JOIN {schema}.spool AS stored
                    ON stored.arrival_id = ANY (ARRAY[entry.arrival_id])
                        AND stored.position = ANY (ARRAY[entry.position])
                -- Unnumbered messages belong to a transaction that isn't over, or to this one.
                JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[entry.arrival_id])
                CROSS JOIN LATERAL (SELECT CASE WHEN place.unordered
                    THEN ((('x' || left(md5(stored.message_id), 8))::bit(32)::bigint) % place.lanes)::text
                    ELSE entry.group_key END AS key) AS keyed
                LEFT JOIN LATERAL (
                    SELECT one.* FROM {schema}.link_streams_out AS one
                    WHERE one.queue_id = place.queue_id AND one.key = keyed.key OFFSET 0
                ) AS stream ON TRUE
                WHERE (entry.visible_at IS NULL OR entry.visible_at <= clock_timestamp())
                    AND (stream.stream_id IS NULL
                        OR stream.status = {status.OPEN} AND stream.sent - stream.acked < {WINDOW}
                        AND stream.ahead_bytes < {WINDOW_BYTES})
                OFFSET 0 -- so that bodies aren't sorted
            ) AS waiting
        ) AS one
        WHERE one.place <= {WINDOW} AND (one.bytes_there <= {WINDOW_BYTES} OR one.place = 1)
            AND (one.bytes_before < 33554432);
        CONTINUE WHEN portion.entry_ids IS NULL;
        -- Messages that can't travel are set aside, so that the rest of their group goes on.
        IF too_large < ANY (portion.sizes) THEN
            WITH gone AS (
                DELETE FROM {schema}.entries AS entry
                USING unnest(portion.entry_ids, portion.sizes) AS told (entry_id, bytes)
                WHERE entry.entry_id = told.entry_id AND told.bytes > too_large RETURNING entry.*
            )
            INSERT INTO {schema}.aside (
                entry_id, queue_id, group_key, disposition, reason, arrival_id, position, sequence, size, priority,
                subscription_ids
            )
            SELECT gone.entry_id, gone.queue_id, gone.group_key, 'invalid',
                'its properties have more than 1 MB, which can''t travel over a link',
                gone.arrival_id, gone.position, gone.sequence, gone.size, gone.priority, gone.subscription_ids
                FROM gone;
        END IF;
        PERFORM {schema}.link_open(
            of_link, array_agg(place.queue_id), array_agg(place.destination), array_agg(fresh.key)
        )
        FROM (
            SELECT DISTINCT told.key FROM unnest(portion.keys, portion.sizes) AS told (key, bytes)
            WHERE told.bytes <= too_large AND (
                SELECT stream.number FROM {schema}.link_streams_out AS stream
                WHERE stream.queue_id = place.queue_id AND stream.key = told.key
            ) IS NULL
        ) AS fresh HAVING count(*) > 0;
        collected := collected + (
            SELECT {schema}.link_append(
                array_agg(one.stream_id ORDER BY one.stamp, one.serial),
                array_agg(one.message_id ORDER BY one.stamp, one.serial),
                array_agg(one.header ORDER BY one.stamp, one.serial),
                array_agg(one.replayed ORDER BY one.stamp, one.serial),
                array_agg(one.received_at ORDER BY one.stamp, one.serial),
                array_agg(one.arrival_id ORDER BY one.stamp, one.serial),
                array_agg(one.position::integer ORDER BY one.stamp, one.serial),
                array_agg(one.has_parts ORDER BY one.stamp, one.serial)
            )
            FROM (
                SELECT stream.stream_id, stored.message_id, told.stamp, told.serial, stored.arrival_id, stored.position,
                    told.entry_id, stored.received_at, stored.parts IS NOT NULL AS has_parts,
                    stream.sent = 0 AND told.entry_id <= its_link.replayed_through
                        OR stored.id_space ^@ 'link:'
                        AND coalesce(stored.context -> 'link_replayed' = 'true', FALSE) AS replayed,
                    convert_to(jsonb_build_object(
                        'type', stored.type, 'content_type', stored.content_type,
                        'space', CASE WHEN passed.on THEN substr(stored.id_space, 43) ELSE stored.id_space END,
                        'context', stored.context
                            - '{to,location,link_sent_by,link_through,link_replayed,origin_queue,origin_group,origin_incarnation,origin_ordinal}'::text[],
                        'property_types', coalesce(stored.property_types, '{}')
                            - '{to,location}'::text[],
                        'sent_by', CASE WHEN passed.on THEN (stored.context ->> 'link_sent_by')::jsonb ELSE jsonb_build_object(
                            'box', own, 'queue', place.queue, 'location', run.location,
                            'epoch', run.epoch + (run.number - 1 + stored.position) / at.last_number,
                            'number', (run.number - 1 + stored.position) % at.last_number + 1
                        ) END,
                        'through',
                        CASE
                            WHEN passed.on THEN (stored.context ->> 'link_through')::jsonb
                            ELSE '[]'
                        END || to_jsonb(own),
                        'parts', CASE WHEN stored.parts IS NULL THEN '[]' ELSE (
                            SELECT jsonb_agg(jsonb_build_object(
                                'name', part.name, 'content_type', part.content_type, 'size', octet_length(part.body)
                            ) ORDER BY part.number)
                            FROM {schema}.message_parts AS part
                            WHERE part.arrival_id = stored.arrival_id AND part.position = stored.position
                        ) END
                    )::text, 'UTF8') AS header
                FROM unnest(
                    portion.entry_ids, portion.keys, portion.arrival_ids, portion.positions, portion.sizes,
                    portion.stamps, portion.serials
                )
                    AS told (entry_id, key, arrival_id, position, bytes, stamp, serial)
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
        ahead := ahead + (SELECT sum(bytes) FROM unnest(portion.sizes) AS bytes WHERE bytes <= too_large);
        IF portion.judged IS NOT NULL THEN
            UPDATE {schema}.known_groups AS known SET ready_rank = NULL
            WHERE known.queue_id = place.queue_id AND known.group_key = ANY (portion.judged) AND NOT EXISTS (
                SELECT FROM {schema}.entries AS one
                WHERE one.queue_id = place.queue_id AND one.group_key = known.group_key AND one.status = 'queued'
                    AND one.entry_id <> ALL (portion.entry_ids)
            );
        END IF;
        PERFORM {schema}.link_leave(
            ARRAY(
                SELECT told.entry_id FROM unnest(portion.entry_ids, portion.sizes) AS told (entry_id, bytes)
                WHERE told.bytes <= too_large
            )
        );
    END LOOP;
    RETURN collected;
END
$function$;
