-- Apply the answers of the other box. Return how many messages they acknowledge; NULL if another process is sending:
-- then they are asked for again. `of_token`: that of the question. Each stream is looked up, see `decide`: a join by a
-- hash would read all streams of the link.
-- is: generic plan, no seqscan, no hashjoin, no mergejoin, no jit
CREATE OR REPLACE FUNCTION {schema}.link_answered(of_link integer, frame bytea, of_token uuid) RETURNS bigint
AS $function$
DECLARE
    head record;
    its_link {schema}.known_links;
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
    PERFORM set_config('synchronous_commit', 'off', TRUE);
    SELECT * INTO its_link FROM {schema}.known_links WHERE link_id = of_link;
    keeps := coalesce((its_link.definition ->> 'keep_sent')::double precision, 0) > 0;
    base := 64 + 24 * head.ranges;
    heap := base + 72 * head.rows + 48 * head.messages;
    SELECT array_agg(one.incarnation ORDER BY one.nth) AS incarnations,
        array_agg(one.number ORDER BY one.nth) AS numbers,
        array_agg(one.answer ORDER BY one.nth) AS answers, array_agg(one.wait_ms ORDER BY one.nth) AS waits,
        array_agg(one.fragment ORDER BY one.nth) AS fragments,
        array_agg(one.received ORDER BY one.nth) AS received, array_agg(one.length ORDER BY one.nth) AS lengths,
        array_agg(one.chain ORDER BY one.nth) AS chains, array_agg(one.at::bigint ORDER BY one.nth) AS ats,
        coalesce(sum(one.length), 0)::bigint AS bytes, count(DISTINCT (one.incarnation, one.number)) AS distinct_ones,
        bool_and(
            one.incarnation BETWEEN 1 AND 9007199254740991 AND one.number BETWEEN 1 AND 9007199254740991
                AND one.answer <= {answer.BROKEN}
            AND one.received BETWEEN 0 AND 9007199254740991 AND one.length <= 1000
            AND (one.answer = {answer.WAIT} OR one.wait_ms = 0)
            AND (one.answer = {answer.MISSING} OR one.fragment = 0) AND one.fragment <= 512
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
    SELECT array_agg(one.incarnation) AS incarnations, array_agg(one.number) AS numbers,
        array_agg(one.begins) AS begins,
        count(DISTINCT one.incarnation) AS distinct_ones,
        bool_and(
            one.incarnation BETWEEN 1 AND 9007199254740991 AND one.number BETWEEN 1 AND 9007199254740991
        ) AS are_right
    INTO known
    FROM (
        SELECT {schema}.link_u8(frame, row.at) AS incarnation, {schema}.link_u8(frame, row.at + 8) AS number,
            substring(frame, (row.at + 17)::integer, 32) AS begins
        FROM generate_series(1, head.messages) AS nth
        CROSS JOIN LATERAL (SELECT base + 72 * head.rows + 48 * (nth - 1) AS at) AS row
    ) AS one;
    PERFORM {schema}.link_check(
        known.are_right IS NOT FALSE AND known.distinct_ones = head.messages, 'a stream has a number that none can have'
    );

    -- Streams that are over here and unknown there are lost, and won't be sent again.
    PERFORM {schema}.link_note_restored(
        of_link, 'streams are over, and the other box has no note of them: it seems to have gone back', NULL, NULL,
        jsonb_build_object('incarnation', one.incarnation, 'streams', one.numbers::text)
    ) FROM {schema}.link_ranges(frame, head.ranges) AS one;
    -- A number that the other box knows and this one doesn't, or knows as another stream: this box was restored.
    -- It goes on above.
    SELECT bool_or(
        there.number > coalesce(here.highest, 0)
        OR stream.stream_id IS NOT NULL
        AND there.begins <> sha256('seriatim stream'::bytea || uuid_send(stream.stream_id))
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
        UPDATE {schema}.known_links SET replayed_through = (SELECT last_value FROM {schema}.entry_ids)
        WHERE link_id = of_link;
        PERFORM {schema}.link_note_restored(
            of_link, 'the other box knows a stream that this one doesn''t: this box seems to have gone back', NULL,
            NULL,
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
            SELECT row.*,
                nullif(
                    convert_from(substring(frame, (heap + row.at + 1)::integer, row.length::integer), 'UTF8'), ''
                ) AS reason
            FROM unnest(
                told.incarnations, told.numbers, told.answers, told.waits, told.received, told.chains, told.ats,
                told.lengths, told.fragments
            ) WITH ORDINALITY AS row (incarnation, number, answer, wait_ms, received, chain, at, length, fragment, nth)
        ) AS each
        -- Joined, they would be read once for all streams, by a plan from a time when the tables were empty.
        CROSS JOIN LATERAL (
            SELECT * FROM {schema}.link_streams_out AS one
            WHERE one.link_id = of_link AND one.incarnation = each.incarnation AND one.number = each.number OFFSET 0
        ) AS stream
        LEFT JOIN LATERAL (
            SELECT one.chain FROM {schema}.link_messages AS one
            WHERE one.stream_id = stream.stream_id AND one.number = each.received OFFSET 0
        ) AS at ON TRUE
        LEFT JOIN unnest(known.incarnations, known.numbers) AS there (incarnation, number)
            ON there.incarnation = each.incarnation
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

    -- Messages that are acknowledged, or are sent again from there on.
    WITH moved AS MATERIALIZED (
        SELECT one.*, (
            SELECT sum(octet_length(waiting.header) + octet_length(waiting.body)) FROM {schema}.link_messages AS waiting
            WHERE waiting.stream_id = one.stream_id AND waiting.number > least(one.acked, one.through)
                AND waiting.number <= greatest(one.acked, one.through)
        ) AS bytes
        FROM unnest(fate.ids, fate.decisions, fate.acked, fate.through, fate.chains)
            AS one (stream_id, decision, acked, through, chain)
        WHERE one.through <> one.acked
    ), noted AS (
        UPDATE {schema}.link_streams_out AS stream SET
            status = CASE WHEN moved.decision = {decision.REPEAT} THEN {status.OPEN} ELSE stream.status END,
            marked = CASE
                WHEN moved.decision = {decision.REPEAT} THEN greatest(stream.marked, stream.acked)
                ELSE stream.marked
            END,
            acked = moved.through, chain = moved.chain, token = NULL, last_used = clock_timestamp(), attempts = 0,
            next_try_at = '-infinity', last_error = NULL, fragment = 0,
            ahead_bytes = greatest(
                0,
                stream.ahead_bytes + CASE WHEN moved.decision = {decision.REPEAT} THEN moved.bytes ELSE -moved.bytes END
            ),
            kept = CASE WHEN keeps THEN stream.kept ELSE moved.through END,
            kept_chain = CASE WHEN keeps THEN stream.kept_chain ELSE moved.chain END
        FROM moved WHERE stream.stream_id = ANY (ARRAY[moved.stream_id])
    )
    SELECT coalesce(sum(moved.through - moved.acked) FILTER (WHERE moved.decision <> {decision.REPEAT}), 0)::bigint
    INTO acknowledged FROM moved;
    IF keeps THEN
        UPDATE {schema}.link_messages AS waiting SET acked_at = clock_timestamp()
        FROM unnest(fate.ids, fate.decisions, fate.acked, fate.through) AS one (stream_id, decision, acked, through)
        WHERE one.decision <= {decision.FRAGMENTS} AND waiting.stream_id = ANY (ARRAY[one.stream_id])
            AND waiting.number > one.acked AND waiting.number <= one.through;
    ELSE
        DELETE FROM {schema}.link_messages AS waiting
        USING unnest(fate.ids, fate.decisions, fate.acked, fate.through) AS one (stream_id, decision, acked, through)
        WHERE one.decision <= {decision.FRAGMENTS} AND waiting.stream_id = ANY (ARRAY[one.stream_id])
            AND waiting.number > one.acked AND waiting.number <= one.through;
    END IF;
    UPDATE {schema}.link_streams_out AS stream SET
        next_try_at = CASE
            WHEN one.wait_ms > 0 THEN clock_timestamp() + make_interval(secs => one.wait_ms / 1000.0)
            ELSE stream.next_try_at
        END,
        last_error = coalesce(one.reason, format(
            'the other box refuses it: %s isn''t among those that it has named for this box',
            CASE stream.queue_id WHEN 0 THEN 'the service that says it' ELSE 'the stream''s queue' END
        ))
    FROM unnest(fate.ids, fate.decisions, fate.waits, fate.reasons) AS one (stream_id, decision, wait_ms, reason)
    WHERE one.decision = {decision.LATER} AND stream.stream_id = ANY (ARRAY[one.stream_id])
        AND (one.wait_ms > 0 OR stream.status = {status.OPEN});

    UPDATE {schema}.link_streams_out AS stream SET fragment = one.fragment, attempts = 0, next_try_at = '-infinity',
        last_error = NULL
    FROM unnest(fate.ids, fate.decisions, fate.fragments) AS one (stream_id, decision, fragment)
    WHERE one.decision = {decision.FRAGMENTS} AND stream.stream_id = ANY (ARRAY[one.stream_id]);

    UPDATE {schema}.link_streams_out AS stream SET
        probes = FALSE, probed_at = clock_timestamp(), attempts = 0, next_try_at = '-infinity'
    WHERE stream.stream_id = ANY (fate.ids) AND stream.probes;
    -- What one stream of a dialog lacks others may lack, too.
    UPDATE {schema}.link_streams_out AS stream SET probes = TRUE
    WHERE fate.decisions && ARRAY[{decision.REPEAT}, {decision.END}] AND stream.link_id = of_link
        AND stream.queue_id = 0 AND stream.status = {status.OPEN} AND stream.acked > 0
        AND stream.probed_at < clock_timestamp() - interval '1 minute' AND stream.stream_id <> ALL (fate.ids);
    -- Streams that can't be made whole.
    PERFORM {schema}.link_note_restored(
        of_link, 'a stream can''t be made whole, and goes on as a new one', place.queue, nullif(stream.key, ''), jsonb_build_object(
            'incarnation', stream.incarnation, 'stream', stream.number, 'lacks_above', one.above, 'unproven_above',
            one.unproven,
            'through', stream.acked, 'went_back', (ARRAY['unknown', 'this box', 'the other box'])[one.side + 1]
        )
    )
    FROM unnest(
        fate.ids, fate.decisions, fate.sides, fate.above, fate.unproven
    ) AS one (stream_id, decision, side, above, unproven)
    JOIN {schema}.link_streams_out AS stream ON stream.stream_id = ANY (ARRAY[one.stream_id])
    LEFT JOIN {schema}.queues AS place ON place.queue_id = stream.queue_id
    WHERE one.decision IN ({decision.END}, {decision.LOST});
    PERFORM {schema}.link_count_restored(
        of_link, (head.ranges > 0)::integer + coalesce(is_restored, FALSE)::integer + count(*),
        head.ranges > 0 OR coalesce(is_restored, FALSE) OR coalesce(bool_or(stream.queue_id = 0), FALSE)
    )
    FROM unnest(fate.ids, fate.decisions) AS one (stream_id, decision)
    JOIN {schema}.link_streams_out AS stream ON stream.stream_id = ANY (ARRAY[one.stream_id])
    WHERE one.decision IN ({decision.END}, {decision.LOST});
    UPDATE {schema}.link_streams_out AS stream SET
        status = {status.ENDING}, lacks = one.above, token = NULL, attempts = 0, next_try_at = '-infinity',
        kept = stream.acked, kept_chain = stream.chain,
        last_error = 'it can''t be made whole'
    FROM unnest(fate.ids, fate.decisions, fate.above) AS one (stream_id, decision, above)
    WHERE one.decision = {decision.END} AND stream.stream_id = ANY (ARRAY[one.stream_id]);
    PERFORM {schema}.link_end(of_link, array_agg(one.stream_id))
    FROM unnest(fate.ids, fate.decisions) AS one (stream_id, decision)
    WHERE one.decision IN ({decision.OVER}, {decision.LOST}) HAVING count(*) > 0;
    UPDATE {schema}.known_links SET sent = sent + acknowledged WHERE link_id = of_link AND acknowledged > 0;
    UPDATE {schema}.known_links AS link SET far_groups = link.far_groups || there.groups
    FROM (
        SELECT jsonb_object_agg(stream.queue_id, one.reason) AS groups
        FROM unnest(fate.ids, fate.decisions, fate.reasons) AS one (stream_id, decision, reason)
        JOIN {schema}.link_streams_out AS stream ON stream.stream_id = ANY (ARRAY[one.stream_id])
        WHERE one.decision = {decision.ACK} AND one.reason <> ''
    ) AS there
    WHERE link.link_id = of_link AND NOT link.far_groups @> there.groups;
    RETURN acknowledged;
END
$function$;
