-- Return the next batch for the other box, and the token of this question; NULL if another process is sending, or the
-- box is disabled. The content of a batch is sent again only after `next_try_at`. `largest`: the most bytes, NULL or 0:
-- the usual. `at_once`: now, despite `next_try_at`. `more`: more can be sent now.
-- is: generic plan, no seqscan, no bitmapscan, no jit
CREATE OR REPLACE FUNCTION {schema}.link_next(
    of_link integer, largest bigint, at_once boolean, OUT frame bytea, OUT of_token uuid, OUT messages bigint,
    OUT more boolean
)
AS $function$
DECLARE
    its_link {schema}.known_links;
    keeps interval;
    moment CONSTANT timestamptz := clock_timestamp(); -- see `is_due`
    idle_since timestamptz;
    most_streams CONSTANT integer := 2000;
    collected bigint;
    asked record;
    over record;
    content bytea;
    largest_round CONSTANT bigint := {LARGEST_ROUND};
    fragment_bytes CONSTANT bigint := 1048576;
    room bigint := least(coalesce(nullif(largest, 0), 3000000), 3000000) - 800000;
BEGIN
    IF NOT {schema}.link_lock(of_link, TRUE) THEN
        RETURN;
    END IF;
    PERFORM {schema}.link_durable();
    SELECT * INTO its_link FROM {schema}.known_links WHERE link_id = of_link;
    IF its_link.peer IS NULL OR {schema}.is_stopped() THEN
        RETURN;
    END IF;
    keeps := make_interval(secs => coalesce((its_link.definition ->> 'keep_sent')::double precision, 0));
    idle_since := moment - make_interval(
        secs => coalesce((its_link.definition ->> 'stream_idle')::double precision, 3600)
    );
    WITH old AS (
        DELETE FROM {schema}.link_messages AS one USING {schema}.link_streams_out AS stream
        WHERE stream.link_id = of_link AND stream.kept < stream.acked AND one.stream_id = stream.stream_id
            AND one.number <= stream.acked AND one.acked_at <= moment - keeps
        RETURNING one.stream_id, one.number, one.chain
    )
    UPDATE {schema}.link_streams_out AS stream SET kept = last.number, kept_chain = last.chain
    FROM (SELECT DISTINCT ON (old.stream_id) * FROM old ORDER BY old.stream_id, old.number DESC) AS last
    WHERE stream.stream_id = last.stream_id;
    UPDATE {schema}.link_streams_out AS stream SET status = {status.CLOSING}, next_try_at = '-infinity'
    WHERE stream.link_id = of_link AND stream.status = {status.OPEN} AND stream.kept = stream.sent
        AND stream.acked = stream.sent
        AND stream.last_used <= idle_since;
    -- A box that went back lacks at least what it has acknowledged last.
    UPDATE {schema}.link_streams_out AS stream SET probes = TRUE
    WHERE (at_once OR its_link.sent_at < moment - interval '30 seconds') AND stream.stream_id = (
        SELECT one.stream_id FROM {schema}.link_streams_out AS one
        WHERE one.link_id = of_link AND one.queue_id = 0 AND one.status = {status.OPEN} AND one.acked > 0
        ORDER BY one.last_used DESC LIMIT 1
    );
    -- Each call would read all streams with messages, if it collected more than it can send.
    PERFORM FROM {schema}.link_streams_out AS stream
    WHERE stream.link_id = of_link AND (stream.status <> {status.OPEN} OR stream.acked < stream.sent)
        AND stream.next_try_at = '-infinity'
    OFFSET most_streams LIMIT 1;
    collected := CASE
        WHEN FOUND THEN 5000
        ELSE {schema}.link_collect(of_link, 5000) + {schema}.link_collect_dialogs(of_link, 5000)
    END;

    WITH ready AS MATERIALIZED (
        SELECT stream.*,
            row_number() OVER (ORDER BY stream.next_try_at, stream.last_used, stream.incarnation, stream.number) AS nth
        FROM (
            (
                SELECT one.* FROM {schema}.link_streams_out AS one
                WHERE one.link_id = of_link AND (one.status <> {status.OPEN} OR one.acked < one.sent)
                    AND one.next_try_at <= CASE WHEN at_once THEN 'infinity' ELSE moment END
                ORDER BY one.next_try_at, one.last_used, one.incarnation, one.number LIMIT most_streams + 1
            ) UNION ALL
            SELECT one.* FROM {schema}.link_streams_out AS one
            WHERE one.link_id = of_link AND one.probes AND one.status = {status.OPEN} AND one.acked = one.sent
                AND (at_once OR one.next_try_at <= moment)
        ) AS stream
        ORDER BY stream.next_try_at, stream.last_used, stream.incarnation, stream.number LIMIT most_streams + 1
    ), sized AS (
        SELECT ready.*, one.number - ready.acked AS place,
            sum(one.bytes) OVER (PARTITION BY ready.nth ORDER BY one.number) AS in_stream,
            sum(one.bytes) OVER (ORDER BY ready.nth, one.number) AS in_all
        FROM ready LEFT JOIN LATERAL (
            SELECT waiting.number,
                -- Of a body that goes in parts that is more than fits: nothing follows it in its round.
                64 + octet_length(waiting.message_id) + octet_length(waiting.header) + CASE
                    WHEN waiting.number = ready.acked + 1 THEN least(octet_length(waiting.body), largest_round)
                    ELSE octet_length(waiting.body)
                END AS bytes
            FROM {schema}.link_messages AS waiting
            WHERE waiting.stream_id = ready.stream_id AND waiting.number > ready.acked ORDER BY waiting.number
            LIMIT {WINDOW}
        ) AS one ON ready.status = {status.OPEN}
    ), chosen AS MATERIALIZED (
        SELECT * FROM (
            SELECT stream_id, nth, status, acked, sent, queue_id, probes, count(*) FILTER (WHERE
                (in_stream <= largest_round OR place = 1) AND (in_all <= room OR nth = 1 AND place = 1)
            ) AS count
            FROM sized WHERE nth <= most_streams GROUP BY stream_id, nth, status, acked, sent, queue_id, probes
        ) AS counted
        WHERE status <> {status.OPEN} OR count > 0 OR probes
    )
    SELECT array_agg(chosen.stream_id ORDER BY chosen.nth) AS ids,
        array_agg(chosen.count ORDER BY chosen.nth) AS counts,
        coalesce(sum(chosen.count), 0)::bigint AS messages,
        (SELECT count(*) FROM ready) > count(*)
            OR bool_or(chosen.status = {status.OPEN} AND chosen.acked + chosen.count < chosen.sent) AS more, bool_or(chosen.queue_id = 0) AS has_dialogs
    INTO asked FROM chosen;
    messages := asked.messages;
    more := coalesce(asked.more, FALSE) OR collected >= 5000;
    of_token := gen_random_uuid();
    UPDATE {schema}.link_streams_out AS stream SET
        token = of_token, attempts = stream.attempts + 1,
        next_try_at = clock_timestamp() + make_interval(secs => least(2 ^ least(stream.attempts, 9), 300))
    WHERE stream.stream_id = ANY (asked.ids);
    -- A row is written, so the log is on disk up to here when the batch leaves. A batch without streams has only
    -- earlier durable facts.
    UPDATE {schema}.known_links SET sent_at = clock_timestamp()
    WHERE link_id = of_link
        AND (asked.ids IS NOT NULL OR sent_at IS NULL OR sent_at < clock_timestamp() - interval '30 seconds');

    SELECT ranges.how_many, ranges.records INTO over
    FROM (
        SELECT coalesce(array_agg(known.incarnation), '{}') AS incarnations,
            coalesce(array_agg(known.over), '{}') AS numbers
        FROM {schema}.link_numbers AS known WHERE known.link_id = of_link AND known.is_ours AND NOT isempty(known.over)
    ) AS told CROSS JOIN LATERAL {schema}.link_range_records(told.incarnations, told.numbers) AS ranges;

    WITH told AS MATERIALIZED (
        SELECT stream.*, given.count, given.nth
        FROM unnest(asked.ids, asked.counts) WITH ORDINALITY AS given (id, count, nth)
        JOIN {schema}.link_streams_out AS stream ON stream.stream_id = given.id
    ), going AS MATERIALIZED (
        SELECT told.nth, told.stream_id, one.number, one.message_id, one.digest, one.replayed OR one.number <= told.marked AS replayed,
            octet_length(one.header) AS header_length, octet_length(one.body) AS size, part.begins, part.length
        -- Looked up by stream, here and below: joined, all messages are read for each stream, by a plan from a time of none.
        FROM told CROSS JOIN LATERAL (
            SELECT * FROM {schema}.link_messages AS waiting
            WHERE waiting.stream_id = told.stream_id AND waiting.number > told.acked
                AND waiting.number <= told.acked + told.count OFFSET 0
        ) AS one
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
            int8send(told.incarnation) || int8send(told.number) || uuid_send(told.stream_id)
                || int4send(told.status::integer + CASE told.queue_id WHEN 0 THEN {OF_DIALOGS} ELSE 0 END)
            || int4send(told.count::integer) || int8send(told.acked) || int8send(
                CASE told.status WHEN {status.ENDING} THEN told.lacks ELSE 0 END
            ) || told.chain
            || int4send(
                octet_length(convert_to(told.destination, 'UTF8'))
            ) || int4send(octet_length(convert_to(told.key, 'UTF8'))),
            ''::bytea ORDER BY told.nth
        ) FROM told), ''::bytea)
        || coalesce((SELECT string_agg(
            going.digest || int8send(going.size) || int8send(going.begins) || int4send(going.length::integer)
            || int4send(
                octet_length(convert_to(going.message_id, 'UTF8'))
            ) || int4send(going.header_length) || int4send(going.replayed::integer),
            ''::bytea ORDER BY going.nth, going.number
        ) FROM going), ''::bytea)
        || coalesce((SELECT string_agg(
            convert_to(told.destination, 'UTF8') || convert_to(told.key, 'UTF8'), ''::bytea ORDER BY told.nth
        ) FROM told), ''::bytea)
        || coalesce((SELECT string_agg(
            convert_to(one.message_id, 'UTF8') || one.header || CASE
                WHEN going.length < going.size
                    THEN substring(one.body, (going.begins + 1)::integer, going.length::integer) ELSE one.body
            END, ''::bytea ORDER BY going.nth, going.number
        ) FROM going CROSS JOIN LATERAL (
            SELECT * FROM {schema}.link_messages AS waiting
            WHERE waiting.stream_id = going.stream_id AND waiting.number = going.number OFFSET 0
        ) AS one), ''::bytea)
    INTO content;
    frame := {schema}.link_frame(
        1, its_link.peer, over.how_many, coalesce(cardinality(asked.ids), 0), messages, 0, over.records || content,
        CASE WHEN asked.has_dialogs THEN 2 ELSE 1 END
    );
END
$function$;
