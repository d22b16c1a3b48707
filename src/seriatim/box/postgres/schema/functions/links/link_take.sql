-- Take in a batch of the other box, and answer it. The changes are on disk when the answers leave, because they leave
-- after the commit.
-- is: auto plan, no seqscan, nestloop, no jit
CREATE OR REPLACE FUNCTION {schema}.link_take(of_link integer, frame bytea, OUT answers bytea, OUT messages bigint)
AS $function$
DECLARE
    head record;
    its_link {schema}.known_links;
    own uuid := (SELECT known.box_id FROM {schema}.box_identity AS known);
    is_disabled boolean := {schema}.is_stopped() OR {schema}.disabled_because() IS NOT NULL;
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
    stops text[];
    arrived bigint;
    refusal text;
    fragment_bytes CONSTANT bigint := 1048576;
BEGIN
    SELECT * INTO head FROM {schema}.link_head(frame);
    PERFORM {schema}.link_check(head.kind = 1, 'a frame that should be a batch is something else');
    SELECT * INTO its_link FROM {schema}.known_links WHERE link_id = of_link;
    PERFORM {schema}.link_durable();
    is_busy := NOT {schema}.link_lock(of_link, FALSE) OR is_disabled;
    base := 64 + 24 * head.ranges;

    -- A plan for these values would copy the frame for each of its uses. Without statistics of the arrays a
    -- nested loop seems cheap.
    PERFORM set_config('plan_cache_mode', 'force_generic_plan', TRUE), set_config('enable_nestloop', 'off', TRUE);
    -- Its streams.
    SELECT array_agg(one.incarnation ORDER BY one.nth) AS incarnations,
        array_agg(one.number ORDER BY one.nth) AS numbers,
        array_agg(one.begins ORDER BY one.nth) AS begins, array_agg(one.kind % {OF_DIALOGS} ORDER BY one.nth) AS kinds,
        array_agg(one.kind >= {OF_DIALOGS} ORDER BY one.nth) AS of_dialogs,
        array_agg(one.count ORDER BY one.nth) AS counts, array_agg(one.after ORDER BY one.nth) AS afters,
        array_agg(one.lacks ORDER BY one.nth) AS lacks, array_agg(one.chain ORDER BY one.nth) AS chains,
        array_agg(one.name_length ORDER BY one.nth) AS name_lengths,
        array_agg(one.key_length ORDER BY one.nth) AS key_lengths,
        array_agg(one.place::bigint ORDER BY one.nth) AS places,
        coalesce(sum(one.name_length + one.key_length), 0)::bigint AS bytes,
        coalesce(sum(one.count), 0)::bigint AS messages,
        count(DISTINCT (one.incarnation, one.number)) AS distinct_ones,
        bool_and(
            one.incarnation BETWEEN 1 AND 9007199254740991 AND one.number BETWEEN 1 AND 9007199254740991
                AND one.kind % {OF_DIALOGS} <= {batch.END} AND one.kind < {OF_DIALOGS} * head.version
            AND one.count <= {WINDOW} AND (one.kind % {OF_DIALOGS} = {batch.MESSAGES} OR one.count = 0)
            AND one.after BETWEEN 0 AND 9007199254740991 - one.count
            AND one.lacks BETWEEN 0 AND CASE one.kind % {OF_DIALOGS} WHEN {batch.END} THEN one.after ELSE 0 END
            AND one.name_length BETWEEN 1 AND 512 AND one.key_length <= 1024
        ) AS are_right
    INTO stream
    FROM (
        SELECT read.*,
            sum(read.name_length + read.key_length) OVER (ORDER BY read.nth) - read.name_length
                - read.key_length AS place
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
    PERFORM {schema}.link_check(
        stream.are_right IS NOT FALSE, 'a stream has numbers, a kind or lengths that none can have'
    );
    PERFORM {schema}.link_check(stream.distinct_ones = head.rows, 'a stream is in a batch twice');
    PERFORM {schema}.link_check(
        stream.messages = head.messages, format('streams have %s messages, and %s came', stream.messages, head.messages)
    );
    heap := base + 96 * head.rows + 64 * head.messages;

    -- Its messages.
    SELECT array_agg(one.stream ORDER BY one.nth) AS streams, array_agg(one.place::bigint ORDER BY one.nth) AS places,
        array_agg(one.digest ORDER BY one.nth) AS digests, array_agg(one.size ORDER BY one.nth) AS sizes,
        array_agg(one.id_length ORDER BY one.nth) AS id_lengths,
        array_agg(one.header_length ORDER BY one.nth) AS header_lengths,
        array_agg(one.flags ORDER BY one.nth) AS flags, array_agg(one.at::bigint ORDER BY one.nth) AS ats,
        coalesce(sum(one.part_length + one.id_length + one.header_length), 0)::bigint AS bytes,
        bool_and(
            one.flags <= 1 AND one.id_length BETWEEN 1 AND 1024 AND one.header_length <= 1048576
                AND one.size BETWEEN 0 AND 536870912
        ) AS are_right,
        array_agg(one.part_from ORDER BY one.nth) AS part_froms,
        array_agg(one.part_length ORDER BY one.nth) AS part_lengths,
        coalesce(bool_or(one.part_length < one.size), FALSE) AS has_parts,
        bool_and(
            one.part_from BETWEEN 0 AND one.size AND one.part_from % fragment_bytes = 0
                AND one.part_from + one.part_length <= one.size
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
        heap + stream.bytes + message.bytes = octet_length(frame) - 32,
        'the heap of a frame isn''t as long as its records tell'
    );
    heap := heap + stream.bytes;
    SELECT array_agg(
        convert_from(substring(frame, (heap - stream.bytes + one.at + 1)::integer, one.name_length::integer), 'UTF8')
        ORDER BY one.nth
    ) AS names,
        array_agg(convert_from(
            substring(frame, (heap - stream.bytes + one.at + one.name_length + 1)::integer, one.key_length::integer),
            'UTF8'
        ) ORDER BY one.nth) AS keys
    INTO note
    FROM unnest(
        stream.places, stream.name_lengths, stream.key_lengths
    ) WITH ORDINALITY AS one (at, name_length, key_length, nth);
    PERFORM {schema}.link_check(bool_and(one.digest = sha256(
        int4send(one.header_length::integer)
        || substring(frame, (heap + one.at + one.id_length + 1)::integer, (one.header_length + one.size)::integer)
    )) IS NOT FALSE, 'the content of a message isn''t what its digest says')
    FROM unnest(
        message.digests, message.sizes, message.id_lengths, message.header_lengths, message.ats, message.part_lengths
    )
        AS one (digest, size, id_length, header_length, at, part_length)
    WHERE one.part_length = one.size;
    SELECT {schema}.link_chains(
        array_agg(read.stream ORDER BY read.nth), array_agg(first.chain ORDER BY read.nth),
        array_agg(
            convert_from(substring(frame, (heap + read.at + 1)::integer, read.id_length::integer), 'UTF8')
            ORDER BY read.nth
        ),
        array_agg(read.digest ORDER BY read.nth)
    ) INTO chains
    FROM unnest(message.streams, message.digests, message.id_lengths, message.ats)
        WITH ORDINALITY AS read (stream, digest, id_length, at, nth)
    JOIN unnest(stream.chains) WITH ORDINALITY AS first (chain, nth) ON first.nth = read.stream;

    PERFORM set_config('plan_cache_mode', {schema}.link_plans(head.messages), TRUE),
        set_config('enable_nestloop', 'on', TRUE);

    -- Streams that are over for the sender and unknown here are lost.
    IF NOT is_busy THEN
        SELECT array_agg(told.incarnation ORDER BY told.incarnation), array_agg(told.numbers ORDER BY told.incarnation)
        INTO lost_incarnations, lost_numbers
        FROM (
            SELECT one.incarnation, one.numbers - coalesce(here.over, '{}') AS numbers
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
            DELETE FROM {schema}.link_streams_in AS one
            USING unnest(lost_incarnations, lost_numbers) AS gone (incarnation, numbers)
            WHERE one.link_id = of_link AND one.incarnation = gone.incarnation AND gone.numbers @> one.number;
            PERFORM {schema}.link_note_restored(
                of_link,
                'streams are over for the other box, and this one has no note of them: it seems to have gone back',
                NULL, NULL,
                jsonb_build_object('incarnations', lost_incarnations, 'streams', lost_numbers::text[])
            );
        END IF;
    END IF;
    SELECT * INTO lost
    FROM {schema}.link_range_records(coalesce(lost_incarnations, '{}'), coalesce(lost_numbers, '{}'));

    -- Why nothing can be taken now, for each stream; empty: its sender may not say it, whether it is there or not.
    stops := ARRAY(
        SELECT CASE WHEN each.of_dialogs THEN (
            SELECT min({schema}.link_stops(of_link, convert_from(
                substring(frame, (heap + told.at + told.id_length + 1)::integer, told.header_length::integer), 'UTF8'
            )))
            FROM unnest(message.streams, message.id_lengths, message.header_lengths, message.ats)
                AS told (stream, id_length, header_length, at)
            WHERE told.stream = each.nth
        ) WHEN each.name <> ALL (its_link.queues) THEN ''
        WHEN NOT EXISTS (SELECT FROM {schema}.queues AS place WHERE place.queue = each.name) THEN
            format('there is no queue "%s"', each.name)
        END
        FROM unnest(stream.of_dialogs, note.names) WITH ORDINALITY AS each (of_dialogs, name, nth) ORDER BY each.nth
    );
    refusal := (
        SELECT CASE
            WHEN each.stop <> '' THEN each.stop
            WHEN each.of_dialogs THEN format('it may not speak as the service %s', to_json((
                SELECT convert_from(substring(
                    frame, (heap + told.at + told.id_length + 1)::integer, told.header_length::integer
                ), 'UTF8')::jsonb ->> 'service'
                FROM unnest(message.streams, message.id_lengths, message.header_lengths, message.ats)
                    AS told (stream, id_length, header_length, at)
                WHERE told.stream = each.nth LIMIT 1
            )))
            ELSE format('it may not send into the queue %s', to_json(each.name))
        END
        FROM unnest(stream.of_dialogs, note.names, stops) WITH ORDINALITY AS each (of_dialogs, name, stop, nth)
        WHERE NOT each.stop ^@ 'the queue' ORDER BY each.nth LIMIT 1
    );
    -- Fragments are kept, in order; with the last one the message is put together.
    whole := stream.counts;
    fits := array_fill(TRUE, ARRAY[head.rows::integer]);
    kept := array_fill(NULL::bigint, ARRAY[head.rows::integer]);
    IF message.has_parts THEN
        FOR part IN
            SELECT each.*, told.size, told.part_from, told.part_length, told.id_length, told.header_length, told.at,
                told.digest
            FROM unnest(
                message.streams, message.sizes, message.part_froms, message.part_lengths, message.id_lengths,
                message.header_lengths, message.ats,
                message.digests
            ) AS told (nth, size, part_from, part_length, id_length, header_length, at, digest)
            JOIN unnest(
                stream.incarnations, stream.numbers, note.names, note.keys, stream.begins, stream.afters, stream.chains,
                stream.of_dialogs, stops
            ) WITH ORDINALITY AS each (incarnation, number, name, key, begins, after, chain, of_dialogs, stop, nth)
                USING (nth)
            WHERE told.part_length < told.size AND NOT is_busy AND each.stop IS NULL
        LOOP
            whole[part.nth] := 0;
            kept[part.nth] := {schema}.link_keep_fragments(
                of_link, frame, heap + part.at, part.incarnation, part.number, part.name, part.key, part.begins,
                part.after, part.chain, part.digest,
                part.size, part.part_from, part.part_length, part.id_length, part.header_length
            );
            fits[part.nth] := kept[part.nth] >= 0;
            IF kept[part.nth] * fragment_bytes >= part.size THEN
                whole[part.nth] := 1;
            END IF;
        END LOOP;
    END IF;

    -- The result of each stream.
    SELECT array_agg(one.answer ORDER BY one.nth) AS answers, array_agg(one.received ORDER BY one.nth) AS received,
        array_agg(one.skipped ORDER BY one.nth) AS skipped, array_agg(one.taken ORDER BY one.nth) AS taken,
        array_agg(one.ends ORDER BY one.nth) AS ends, array_agg(one.event ORDER BY one.nth) AS events,
        array_agg(one.chain ORDER BY one.nth) AS chains,
        array_agg(one.known_received ORDER BY one.nth) AS known_received,
        array_agg(one.queue_id ORDER BY one.nth) AS queue_ids,
        array_agg(one.is_known ORDER BY one.nth) AS are_known,
        array_agg(CASE
            WHEN one.answer = {answer.THROUGH} AND one.after = 0 AND one.count > 0 THEN coalesce(one.groups_by, '')
            WHEN one.answer <> {answer.WAIT} THEN ''
            WHEN is_disabled THEN 'the box is disabled'
            WHEN is_busy THEN 'busy'
            WHEN one.stop IS NOT NULL THEN one.stop
            ELSE format('the queue "%s" is full', one.name)
        END ORDER BY one.nth) AS reasons
    INTO fate
    FROM (
        SELECT told.*, verdict.* FROM (
            SELECT each.*, place.queue_id, here.number IS NOT NULL AS is_known,
                place.definition ->> 'group' AS groups_by,
                coalesce(here.received, 0) AS known_received, coalesce(here.chain, each.begins) AS chain,
                coalesce(numbers.over @> each.number, FALSE) AS is_over,
                CASE
                    WHEN each.stop IS NOT NULL THEN 0
                    WHEN each.of_dialogs THEN {WINDOW}
                    WHEN limited.most IS NULL THEN {WINDOW}
                    ELSE limited.most - (
                        SELECT count(*)
                        FROM (
                            SELECT FROM {schema}.entries WHERE queue_id = place.queue_id LIMIT limited.most
                        ) AS counted
                    ) - sum(each.count) OVER (PARTITION BY each.name ORDER BY each.nth) + each.count
                END::bigint AS room,
                coalesce(
                    CASE WHEN coalesce(here.received, 0) = each.after THEN each.told_chain ELSE there.chain END
                        = coalesce(here.chain, each.begins), FALSE
                ) AS is_equal
            FROM unnest(
                stream.incarnations, stream.numbers, stream.begins, stream.kinds, whole, stream.afters, stream.chains,
                note.names, fits, kept, stream.of_dialogs, stops
            ) WITH ORDINALITY AS each (
                incarnation, number, begins, kind, count, after, told_chain, name, fits, kept, of_dialogs, stop, nth
            )
            LEFT JOIN {schema}.queues AS place ON place.queue = each.name AND NOT each.of_dialogs
            LEFT JOIN LATERAL {schema}.whole_number(place.definition -> 'max_messages') AS limited (most) ON TRUE
            -- Looked up each by itself: joined, all streams of the link are read for each of the batch.
            LEFT JOIN LATERAL (
                SELECT * FROM {schema}.link_streams_in AS one
                WHERE one.link_id = of_link AND one.incarnation = each.incarnation AND one.number = each.number OFFSET 0
            ) AS here ON TRUE
            LEFT JOIN {schema}.link_numbers AS numbers
                ON numbers.link_id = of_link AND NOT numbers.is_ours AND numbers.incarnation = each.incarnation
            LEFT JOIN unnest(message.streams, message.places, chains) AS there (stream, place, chain)
                ON there.stream = each.nth AND there.place = here.received - each.after
        ) AS told
        CROSS JOIN LATERAL {schema}.link_verdict(
            told.known_received, told.is_over, is_busy, told.room, told.kind, told.after, told.count,
            told.is_equal, told.fits, told.kept IS NOT NULL AND told.count = 0
        ) AS verdict
    ) AS one;
    -- Whole messages first, all at once. A message that can't be stored fails its stream: then each stream is a
    -- savepoint.
    parted := ARRAY(
        SELECT CASE WHEN one.kept IS NULL AND NOT one.of_dialogs THEN one.taken ELSE 0 END
        FROM unnest(fate.taken, kept, stream.of_dialogs) WITH ORDINALITY AS one (taken, kept, of_dialogs, nth)
        ORDER BY one.nth
    );
    PERFORM {schema}.link_take_record(
        of_link, convert_from(substring(
            frame, (heap + told.at + told.id_length + 1)::integer, told.header_length::integer
        ), 'UTF8')::jsonb,
        substring(frame, (heap + told.at + told.id_length + told.header_length + 1)::integer, told.size::integer),
        told.flags = 1
    )
    FROM unnest(
        message.streams, message.places, message.sizes, message.id_lengths, message.header_lengths, message.flags, message.ats
    ) WITH ORDINALITY AS told (stream, place, size, id_length, header_length, flags, at, nth)
    JOIN unnest(stream.of_dialogs, fate.skipped, fate.taken, kept) WITH ORDINALITY
        AS each (of_dialogs, skipped, taken, kept, stream) USING (stream)
    WHERE each.of_dialogs AND each.kept IS NULL AND told.place BETWEEN each.skipped + 1 AND each.skipped + each.taken
    ORDER BY told.nth;
    IF TRUE = ANY (stream.of_dialogs) THEN
        -- A receiver obeys the inbox; what comes of that calls the others.
        PERFORM {schema}.call_waiters(ARRAY[come.queue_id], 1)
        FROM (
            SELECT DISTINCT one.queue_id FROM {schema}.dialog_inbox AS one
            WHERE one.link_id = of_link AND one.queue_id IS NOT NULL
        ) AS come;
    END IF;
    IF 0 < ANY (parted) THEN
        BEGIN
            PERFORM {schema}.link_publish(
                of_link, frame, heap, note.names, fate.queue_ids, fate.skipped, parted, message.streams, message.places,
                message.sizes,
                message.id_lengths, message.header_lengths, message.flags, message.ats
            );
        EXCEPTION WHEN SQLSTATE 'SQ004' OR data_exception THEN
            FOR faulty IN
                SELECT one.nth FROM unnest(parted) WITH ORDINALITY AS one (taken, nth)
                WHERE one.taken > 0 ORDER BY one.nth
            LOOP
                BEGIN
                    PERFORM {schema}.link_publish(
                        of_link, frame, heap, note.names, fate.queue_ids, fate.skipped, parted, of_one.streams,
                        of_one.places, of_one.sizes,
                        of_one.id_lengths, of_one.header_lengths, of_one.flags, of_one.ats
                    )
                    FROM (
                        SELECT array_agg(one.stream ORDER BY one.at) AS streams,
                            array_agg(one.place ORDER BY one.at) AS places,
                            array_agg(one.size ORDER BY one.at) AS sizes,
                            array_agg(one.id_length ORDER BY one.at) AS id_lengths,
                            array_agg(one.header_length ORDER BY one.at) AS header_lengths,
                            array_agg(one.flag ORDER BY one.at) AS flags,
                            array_agg(one.at ORDER BY one.at) AS ats
                        FROM unnest(
                            message.streams, message.places, message.sizes, message.id_lengths, message.header_lengths,
                            message.flags, message.ats
                        ) AS one (stream, place, size, id_length, header_length, flag, at)
                        WHERE one.stream = faulty
                    ) AS of_one;
                EXCEPTION WHEN SQLSTATE 'SQ004' OR data_exception THEN
                    fate.taken[faulty] := 0;
                    fate.ends[faulty] := FALSE;
                    fate.answers[faulty] := {answer.WAIT};
                    fate.received[faulty] := fate.known_received[faulty];
                    fate.reasons[faulty] := SQLERRM;
                END;
            END LOOP;
        END;
    END IF;
    IF message.has_parts THEN
        FOR part IN
            SELECT told.nth, told.size, told.id_length, told.header_length, told.flags, each.of_dialogs, here.*
            FROM unnest(
                message.streams, message.sizes, message.part_lengths, message.id_lengths, message.header_lengths,
                message.flags
            )
                AS told (nth, size, part_length, id_length, header_length, flags)
            JOIN unnest(stream.incarnations, stream.numbers, fate.taken, stream.of_dialogs) WITH ORDINALITY
                AS each (incarnation, number, taken, of_dialogs, nth) USING (nth)
            JOIN {schema}.link_streams_in AS here
                ON here.link_id = of_link AND here.incarnation = each.incarnation AND here.number = each.number
            WHERE told.part_length < told.size AND each.taken = 1
        LOOP
            faulty := part.nth;
            BEGIN
                IF part.of_dialogs THEN
                    PERFORM {schema}.link_take_record(of_link, convert_from(part.part_header, 'UTF8')::jsonb, (
                        SELECT string_agg(one.body, ''::bytea ORDER BY one.fragment) FROM {schema}.link_fragments AS one
                        WHERE one.link_id = of_link AND one.incarnation = part.incarnation AND one.number = part.number
                    ), part.flags = 1);
                END IF;
                -- A frame without its body, which comes from the fragments.
                arrived := CASE WHEN part.of_dialogs THEN NULL ELSE {schema}.link_publish(
                    of_link, convert_to(part.part_id, 'UTF8') || part.part_header, 0, note.names, fate.queue_ids,
                    fate.skipped, fate.taken, ARRAY[part.nth], ARRAY[1::bigint],
                    ARRAY[part.size],
                    ARRAY[part.id_length], ARRAY[part.header_length], ARRAY[part.flags], ARRAY[0::bigint]
                ) END;
                IF arrived IS NOT NULL THEN
                    PERFORM {schema}.link_store_fragments(
                        arrived, of_link, part.incarnation, part.number, part.part_header, part.size
                    );
                END IF;
                DELETE FROM {schema}.link_fragments AS one
                WHERE one.link_id = of_link AND one.incarnation = part.incarnation AND one.number = part.number;
            EXCEPTION WHEN SQLSTATE 'SQ004' OR data_exception THEN
                fate.taken[faulty] := 0;
                fate.ends[faulty] := FALSE;
                fate.answers[faulty] := {answer.WAIT};
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
    INSERT INTO {schema}.link_streams_in AS here (
        link_id, incarnation, number, destination, key, begins, received, chain
    )
    SELECT of_link, one.incarnation, one.number, one.name, one.key, one.begins, one.received, one.chain
    FROM unnest(
        stream.incarnations, stream.numbers, note.names, note.keys, stream.begins, fate.received, now_at, fate.taken,
        fate.ends
    ) AS one (incarnation, number, name, key, begins, received, chain, taken, ends)
    WHERE one.taken > 0 AND NOT one.ends
    ON CONFLICT (link_id, incarnation, number) DO UPDATE SET
        received = excluded.received, chain = excluded.chain, last_used = now(), part_id = NULL, part_header = NULL,
        part_digest = NULL,
        part_size = NULL;
    INSERT INTO {schema}.link_numbers AS here (link_id, is_ours, incarnation, highest, begins, over)
    SELECT of_link, FALSE, one.incarnation, max(one.number), (array_agg(one.begins ORDER BY one.number DESC))[1],
        coalesce(range_agg(int8range(one.number, one.number, '[]')) FILTER (WHERE one.ends), '{}')
    FROM unnest(
        stream.incarnations, stream.numbers, stream.begins, fate.taken, fate.ends
    ) AS one (incarnation, number, begins, taken, ends)
    WHERE one.taken > 0 OR one.ends
    GROUP BY one.incarnation
    ON CONFLICT (link_id, is_ours, incarnation) DO UPDATE SET
        over = here.over + excluded.over, highest = greatest(here.highest, excluded.highest),
        begins = CASE WHEN excluded.highest > here.highest THEN excluded.begins ELSE here.begins END;
    DELETE FROM {schema}.link_streams_in AS here
    USING (
        SELECT of_link AS link_id, told.incarnation, told.number
        FROM unnest(stream.incarnations, stream.numbers, fate.ends) AS told (incarnation, number, ends)
        WHERE told.ends OFFSET 0
    ) AS one
    -- The link stands beside the numbers, or all its streams would be read for each of them.
    WHERE here.link_id = ANY (ARRAY[one.link_id]) AND here.incarnation = ANY (ARRAY[one.incarnation])
        AND here.number = ANY (ARRAY[one.number]);
    PERFORM {schema}.link_note_restored(
        of_link, 'the other box ends a stream that can''t be made whole',
        CASE WHEN NOT one.of_dialogs AND one.name = ANY (its_link.queues) THEN one.name END,
        nullif(one.key, ''), jsonb_build_object(
            'incarnation', one.incarnation, 'stream', one.number, 'lacks_above', least(one.known_received, one.lacks),
            'through', one.after
        )
    )
    FROM unnest(
        stream.incarnations, stream.numbers, note.names, note.keys, fate.events, fate.known_received, stream.lacks,
        stream.afters, stream.of_dialogs
    )
        AS one (incarnation, number, name, key, event, known_received, lacks, after, of_dialogs)
    WHERE one.event;
    PERFORM {schema}.link_count_restored(
        of_link, (lost_incarnations IS NOT NULL)::integer + count(*),
        lost_incarnations IS NOT NULL OR coalesce(bool_or(one.of_dialogs), FALSE)
    ) FROM unnest(fate.events, stream.of_dialogs) AS one (event, of_dialogs) WHERE one.event;
    -- So that the transaction has a commit that flushes the log.
    UPDATE {schema}.known_links SET received_at = clock_timestamp(), received = received + messages,
        replayed = replayed + coalesce((SELECT count(*) FROM unnest(message.flags) AS flag WHERE flag = 1), 0),
        refused = coalesce(left(refusal, 300), refused),
        refused_at = CASE WHEN refusal IS NULL THEN refused_at ELSE clock_timestamp() END
    WHERE link_id = of_link AND NOT is_busy AND (messages > 0 OR head.rows > 0 OR lost_incarnations IS NOT NULL);

    answers := {schema}.link_frame(
        2, head.sender, lost.how_many, head.rows, told.highest, 0,
        lost.records || told.answers || told.records || told.reasons
    )
    FROM (
        SELECT (
            SELECT count(*) FROM {schema}.link_numbers AS known WHERE known.link_id = of_link AND NOT known.is_ours
        ) AS highest, coalesce((
            SELECT string_agg(
                int8send(known.incarnation) || int8send(known.highest) || known.begins, ''::bytea
                ORDER BY known.incarnation
            )
            FROM {schema}.link_numbers AS known WHERE known.link_id = of_link AND NOT known.is_ours
        ), ''::bytea) AS records, coalesce((
            SELECT string_agg(
                int8send(one.incarnation) || int8send(one.number) || int4send(one.answer) || int4send(CASE
                    WHEN one.answer <> {answer.WAIT}
                        THEN 0 WHEN one.reason = 'busy' THEN 1000 WHEN one.reason ^@ 'the queue' THEN 5000 ELSE 30000
                END) || int8send(one.received)
                || int4send(CASE WHEN one.answer = {answer.MISSING} THEN one.kept::integer ELSE 0 END)
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
