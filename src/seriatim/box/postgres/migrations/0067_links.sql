-- Links to other boxes: who may speak as which box, and the streams of messages in both directions.

-- A pair of boxes, as this one knows it. `definition`: of `Link`, where this box has the address of the other; NULL: the other one calls.
-- `peer`: the id of the other box; NULL before the first contact. `role`: the role that speaks as that box here. `queues`: into which it may send.
-- `replayed_through`: what waits up to this entry may have left before a restore. The counters are for people.
CREATE TABLE {schema}.links (
    link_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    link text NOT NULL UNIQUE,
    definition jsonb,
    peer uuid UNIQUE,
    role regrole,
    queues text[] NOT NULL DEFAULT '{{}}',
    replayed_through bigint NOT NULL DEFAULT 0,
    made_at timestamptz NOT NULL DEFAULT now(),
    sent_at timestamptz,
    received_at timestamptz,
    failed_at timestamptz,
    last_error text,
    sent bigint NOT NULL DEFAULT 0,
    received bigint NOT NULL DEFAULT 0,
    replayed bigint NOT NULL DEFAULT 0,
    restored bigint NOT NULL DEFAULT 0
);

-- Numbers of streams: of those that this box has opened (`is_ours`), and of those of the other one. `incarnation`: of the box that has opened
-- them. `highest`: the last number, `begins` the first chain of that stream. `over`: the numbers that never come back.
CREATE TABLE {schema}.link_numbers (
    link_id integer NOT NULL REFERENCES {schema}.links ON DELETE CASCADE,
    is_ours boolean NOT NULL,
    incarnation bigint NOT NULL CHECK (incarnation > 0),
    highest bigint NOT NULL DEFAULT 0,
    begins bytea NOT NULL,
    over int8multirange NOT NULL DEFAULT '{{}}',
    PRIMARY KEY (link_id, is_ours, incarnation)
);

-- Streams that this box sends. `status`: 0 open, 1 closing, 2 ending. `chain`: at `acked`; `sent_chain`: at `sent`; `kept_chain`: at
-- `kept`, behind which everything is still here. `marked`: what was sent again
-- is marked as replayed up to this number. `lacks`: of a broken stream, above which number the receiver lacks something. `token`: of the last
-- question. `ahead_bytes`: of what isn't acknowledged. `fragment`: of message `acked` + 1, the first that the receiver lacks.
CREATE TABLE {schema}.link_streams_out (
    stream_id uuid PRIMARY KEY,
    link_id integer NOT NULL REFERENCES {schema}.links ON DELETE CASCADE,
    incarnation bigint NOT NULL,
    number bigint NOT NULL,
    queue_id integer NOT NULL,
    destination text NOT NULL,
    key text NOT NULL,
    status smallint NOT NULL DEFAULT 0,
    acked bigint NOT NULL DEFAULT 0,
    chain bytea NOT NULL,
    sent bigint NOT NULL DEFAULT 0,
    sent_chain bytea NOT NULL,
    kept bigint NOT NULL DEFAULT 0,
    kept_chain bytea NOT NULL,
    marked bigint NOT NULL DEFAULT 0,
    lacks bigint NOT NULL DEFAULT 0,
    token uuid,
    ahead_bytes bigint NOT NULL DEFAULT 0,
    fragment integer NOT NULL DEFAULT 0,
    last_used timestamptz NOT NULL DEFAULT clock_timestamp(),
    attempts integer NOT NULL DEFAULT 0,
    next_try_at timestamptz NOT NULL DEFAULT '-infinity',
    last_error text,
    UNIQUE (link_id, queue_id, key),
    UNIQUE (link_id, incarnation, number)
);
-- What there is to send, by when; and idle streams.
CREATE INDEX link_streams_to_send ON {schema}.link_streams_out (link_id, next_try_at) WHERE status <> 0 OR acked < sent;
CREATE INDEX link_streams_idle ON {schema}.link_streams_out (link_id, last_used) WHERE status = 0 AND kept = sent;
CREATE INDEX link_streams_kept ON {schema}.link_streams_out (link_id, stream_id) WHERE kept < acked;

-- Messages on their way: what isn't acknowledged, and for a time what is. `chain`: at this number. The body has the parts behind it. Neither is compressed again.
CREATE TABLE {schema}.link_messages (
    stream_id uuid NOT NULL REFERENCES {schema}.link_streams_out ON DELETE CASCADE,
    number bigint NOT NULL,
    message_id text NOT NULL,
    header bytea NOT NULL,
    body bytea NOT NULL,
    digest bytea NOT NULL,
    chain bytea NOT NULL,
    replayed boolean NOT NULL DEFAULT FALSE,
    entered_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    acked_at timestamptz,
    PRIMARY KEY (stream_id, number)
);
-- So that a fragment is read without the others.
ALTER TABLE {schema}.link_messages ALTER body SET STORAGE EXTERNAL;

-- Streams that this box receives. `chain`: at `received`; `begins`: at 0. `part_…`: as the next message was announced with its first fragment.
CREATE TABLE {schema}.link_streams_in (
    link_id integer NOT NULL REFERENCES {schema}.links ON DELETE CASCADE,
    incarnation bigint NOT NULL,
    number bigint NOT NULL,
    destination text NOT NULL,
    key text NOT NULL,
    begins bytea NOT NULL,
    received bigint NOT NULL,
    chain bytea NOT NULL,
    last_used timestamptz NOT NULL DEFAULT now(),
    part_id text,
    part_header bytea,
    part_digest bytea,
    part_size bigint,
    PRIMARY KEY (link_id, incarnation, number)
);

-- Fragments of the next message of a stream, from 0: those that have come.
CREATE TABLE {schema}.link_fragments (
    link_id integer NOT NULL,
    incarnation bigint NOT NULL,
    number bigint NOT NULL,
    fragment integer NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (link_id, incarnation, number, fragment),
    FOREIGN KEY (link_id, incarnation, number) REFERENCES {schema}.link_streams_in ON DELETE CASCADE
);

-- A stream that can't be made whole is an event of its group, in both boxes.
ALTER TABLE {schema}.events DROP CONSTRAINT events_kind_check;
ALTER TABLE {schema}.events ADD CONSTRAINT events_kind_check CHECK (kind IN (
    'hole_opened', 'hole_overdue', 'hole_skipped', 'hole_filled', 'timed_out', 'closed', 'suspended', 'resumed',
    'conflict', 'restart_suspected', 'void', 'restored'
));

-- ---- the rules of kernel/streams.py, a row a stream; a test compares them

-- What becomes of a batch. Answers: 0 through, 1 wait, 2 missing, 3 gone, 4 broken. Kinds: 0 messages, 1 close, 2 end.
CREATE FUNCTION {schema}.link_verdict(
    known_received bigint, is_over boolean, allowed boolean, busy boolean, room bigint, kind bigint, after bigint, count bigint,
    is_equal boolean, fits boolean, incomplete boolean,
    OUT answer integer, OUT received bigint, OUT skipped bigint, OUT taken bigint, OUT ends boolean, OUT event boolean
)
LANGUAGE plpgsql IMMUTABLE
AS $function$
DECLARE
    ahead bigint := known_received - after;
    reaches boolean := ahead BETWEEN 0 AND count;
    is_open boolean := allowed AND NOT is_over AND NOT busy;
    joins boolean := is_open AND reaches AND is_equal AND kind <> 2;
    closes boolean := joins AND kind = 1 AND ahead = count;
    new bigint := CASE WHEN joins AND fits THEN count - ahead ELSE 0 END;
BEGIN
    event := is_open AND kind = 2;
    ends := event OR closes;
    taken := least(new, greatest(room, 0));
    received := known_received + taken;
    skipped := CASE WHEN joins THEN ahead ELSE 0 END;
    answer := CASE
        WHEN NOT allowed OR is_over OR ends THEN 3
        WHEN busy OR taken < new THEN 1
        WHEN is_open AND kind <> 2 AND (reaches AND NOT is_equal OR joins AND NOT fits) THEN 4
        WHEN joins AND incomplete THEN 2
        ELSE 0
    END;
END
$function$;

-- What a sender does after an answer. Decisions: 0 ack, 1 later, 2 fragments, 3 repeat, 4 over, 5 end, 6 lost, 7 stale. `side`: which box
-- seems to have gone back, 0 unknown, 1 sender, 2 receiver. `above`: of a stream that ends, above which number the receiver lacks something,
-- `unproven` above which it may.
CREATE FUNCTION {schema}.link_decision(
    acked bigint, sent bigint, kept bigint, status integer, answer integer, received bigint, is_equal boolean, current boolean,
    known boolean, OUT decision integer, OUT through bigint, OUT side integer, OUT above bigint, OUT unproven bigint
)
LANGUAGE plpgsql IMMUTABLE
AS $function$
DECLARE
    tells boolean := answer IN (0, 1, 2);
    is_same boolean := is_equal AND received <= sent;
    holds boolean := tells AND is_same AND received >= acked AND status <> 2;
BEGIN
    decision := CASE
        WHEN holds AND (status = 1 OR answer = 1) THEN 1
        WHEN holds AND answer = 2 THEN 2
        WHEN holds THEN 0
        WHEN NOT current THEN 7
        WHEN answer = 3 AND status <> 0 THEN 4
        WHEN answer = 3 AND known THEN 6
        WHEN answer = 3 OR status = 2 THEN 1
        WHEN tells AND is_same AND received >= kept THEN 3
        ELSE 5
    END;
    through := CASE WHEN holds OR decision = 3 THEN received ELSE acked END;
    side := CASE WHEN answer = 3 OR received > sent THEN 1 WHEN received < acked THEN 2 ELSE 0 END;
    above := CASE WHEN answer = 3 THEN acked ELSE least(received, acked) END;
    unproven := CASE WHEN is_equal OR answer = 3 THEN above ELSE 0 END;
END
$function$;

-- The chains after messages. `of_streams`: for each message, whose it is; those of a stream stand in order. `begins`: of each, the chain before
-- the first message of its stream.
CREATE FUNCTION {schema}.link_chains(of_streams bigint[], begins bytea[], message_ids text[], digests bytea[]) RETURNS bytea[]
LANGUAGE plpgsql IMMUTABLE
AS $function$
DECLARE
    one record;
    stream bigint;
    chain bytea;
    chains bytea[] := ARRAY[]::bytea[];
BEGIN
    FOR one IN
        SELECT told.* FROM unnest(of_streams, begins, message_ids, digests) WITH ORDINALITY
            AS told (stream, begins, message_id, digest, nth) ORDER BY told.nth
    LOOP
        IF stream IS DISTINCT FROM one.stream THEN
            stream := one.stream;
            chain := one.begins;
        END IF;
        chain := sha256(chain || convert_to(one.message_id, 'UTF8') || one.digest);
        chains := chains || chain;
    END LOOP;
    RETURN chains;
END
$function$;

-- ---- frames: docs/reference/link-protocol.md

-- Whole numbers, by their places from 0. They are inlined, so the frame has to be a parameter: in a row it would be copied with each row.
CREATE FUNCTION {schema}.link_u4(frame bytea, place bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE
RETURN ('x' || encode(substring(frame, (place + 1)::integer, 4), 'hex'))::bit(32)::bigint;

CREATE FUNCTION {schema}.link_u8(frame bytea, place bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE
RETURN ('x' || encode(substring(frame, (place + 1)::integer, 8), 'hex'))::bit(64)::bigint;

-- Refuse a frame for which something doesn't hold.
CREATE FUNCTION {schema}.link_check(holds boolean, otherwise text) RETURNS void
LANGUAGE plpgsql
AS $function$
BEGIN
    IF holds IS NOT TRUE THEN
        RAISE EXCEPTION '%', otherwise USING ERRCODE = 'SQ004';
    END IF;
END
$function$;

-- The head of a frame that is whole.
CREATE FUNCTION {schema}.link_head(
    frame bytea, OUT kind integer, OUT sender uuid, OUT receiver uuid, OUT incarnation bigint, OUT ranges bigint, OUT rows bigint,
    OUT messages bigint, OUT most_bytes bigint
)
LANGUAGE plpgsql
AS $function$
DECLARE
    size integer := octet_length(frame);
    version integer;
    lowest integer;
    highest integer;
BEGIN
    PERFORM {schema}.link_check(size >= 4, format('%s bytes are no frame', size));
    version := get_byte(frame, 0);
    lowest := get_byte(frame, 2);
    highest := get_byte(frame, 3);
    IF version <> 1 THEN
        RAISE EXCEPTION 'the frame has version % (its box knows % to %), and this one knows 1', version, lowest, highest USING
            ERRCODE = 'SQ004';
    END IF;
    PERFORM {schema}.link_check(size >= 96, format('%s bytes are no frame', size));
    PERFORM {schema}.link_check(size <= 16777216, format('a frame of %s bytes is larger than 16 MiB', size));
    PERFORM {schema}.link_check({schema}.link_u4(frame, 4) = size, format('%s bytes came of %s', size, {schema}.link_u4(frame, 4)));
    PERFORM {schema}.link_check(
        sha256(substring(frame, 1, size - 32)) = substring(frame, size - 31), 'the checksum of a frame is wrong'
    );
    kind := get_byte(frame, 1);
    PERFORM {schema}.link_check(kind BETWEEN 1 AND 4, format('%s is no kind of frame', kind));
    PERFORM {schema}.link_check(
        lowest BETWEEN 1 AND 1 AND highest >= 1, format('a frame of version 1 comes from a box that knows %s to %s', lowest, highest)
    );
    sender := encode(substring(frame, 9, 16), 'hex')::uuid;
    receiver := encode(substring(frame, 25, 16), 'hex')::uuid;
    incarnation := {schema}.link_u8(frame, 40);
    ranges := {schema}.link_u4(frame, 48);
    rows := {schema}.link_u4(frame, 52);
    messages := {schema}.link_u4(frame, 56);
    most_bytes := {schema}.link_u4(frame, 60);
    PERFORM {schema}.link_check(incarnation BETWEEN 1 AND 9007199254740991, format('%s is no incarnation', incarnation));
    PERFORM {schema}.link_check(ranges <= 10000, format('%s ranges are more than 10,000', ranges));
    PERFORM {schema}.link_check(rows <= 10000, format('%s streams are more than 10,000', rows));
    PERFORM {schema}.link_check(kind = 3 OR most_bytes = 0, 'a frame that isn''t a request asks for bytes');
    PERFORM {schema}.link_check(kind < 3 OR ranges + rows + messages = 0, 'a frame without records has some');
    PERFORM {schema}.link_check(
        64 + 24 * ranges + CASE kind WHEN 1 THEN 96 * rows + 64 * messages ELSE 72 * rows + 48 * messages END <= size - 32,
        'the tables of a frame are longer than the frame'
    );
END
$function$;

-- A frame of this box.
CREATE FUNCTION {schema}.link_frame(
    kind integer, receiver uuid, ranges bigint, rows bigint, messages bigint, most_bytes bigint, content bytea
) RETURNS bytea
LANGUAGE plpgsql STABLE
AS $function$
DECLARE
    own {schema}.box_identity;
    frame bytea;
BEGIN
    SELECT * INTO own FROM {schema}.box_identity;
    frame := '\x01'::bytea || set_byte('\x00'::bytea, 0, kind) || '\x0101'::bytea || int4send(96 + octet_length(content))
        || uuid_send(own.box_id) || uuid_send(receiver) || int8send(own.incarnation)
        || int4send(ranges::integer) || int4send(rows::integer) || int4send(messages::integer) || int4send(most_bytes::integer)
        || content;
    RETURN frame || sha256(frame);
END
$function$;

-- The ranges of numbers at the beginning of a frame.
CREATE FUNCTION {schema}.link_ranges(frame bytea, how_many bigint) RETURNS TABLE (incarnation bigint, numbers int8multirange)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $function$
BEGIN
    PERFORM {schema}.link_check(bool_and(
        one.incarnation > 0 AND one.first > 0 AND one.last BETWEEN one.first AND 9007199254740991
        AND (one.before_incarnation < one.incarnation OR one.before_incarnation = one.incarnation AND one.first > one.before + 1) IS NOT FALSE
    ) IS NOT FALSE, 'a range of streams has numbers that no stream can have, or ranges overlap or aren''t in order')
    FROM (
        SELECT read.*, lag(read.last) OVER (ORDER BY read.nth) AS before,
            lag(read.incarnation) OVER (ORDER BY read.nth) AS before_incarnation
        FROM (
            SELECT nth, {schema}.link_u8(frame, 40 + 24 * nth) AS incarnation, {schema}.link_u8(frame, 48 + 24 * nth) AS first,
                {schema}.link_u8(frame, 56 + 24 * nth) AS last
            FROM generate_series(1, how_many) AS nth
        ) AS read
    ) AS one;
    RETURN QUERY
    SELECT {schema}.link_u8(frame, 40 + 24 * nth), range_agg(int8range(
        {schema}.link_u8(frame, 48 + 24 * nth), {schema}.link_u8(frame, 56 + 24 * nth), '[]'
    ))
    FROM generate_series(1, how_many) AS nth GROUP BY 1 ORDER BY 1;
END
$function$;

-- Numbers as records of a frame, by their incarnations; at most 10,000.
CREATE FUNCTION {schema}.link_range_records(incarnations bigint[], numbers int8multirange[], OUT how_many bigint, OUT records bytea)
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
    SELECT count(*), coalesce(string_agg(int8send(one.incarnation) || int8send(lower(one.range)) || int8send(upper(one.range) - 1), ''::bytea
        ORDER BY one.incarnation, one.range), ''::bytea)
    FROM (
        SELECT told.incarnation, range FROM unnest(incarnations, numbers) AS told (incarnation, over), unnest(told.over) AS range
        ORDER BY told.incarnation, range LIMIT 10000
    ) AS one;
END;

-- What is wrong with the header of a message; NULL: nothing. `size`: of its body and parts.
CREATE FUNCTION {schema}.link_wrong_header(message_id text, header text, size bigint) RETURNS text
LANGUAGE plpgsql
AS $function$
DECLARE
    fields jsonb;
    ticket jsonb;
BEGIN
    IF (header IS JSON OBJECT WITH UNIQUE KEYS) IS NOT TRUE THEN
        RETURN 'is no JSON that says each name once';
    END IF;
    fields := header::jsonb;
    ticket := fields -> 'sent_by';
    IF NOT fields ?& '{{type,content_type,space,context,property_types,sent_by,through,parts}}'
        OR fields - '{{type,content_type,space,context,property_types,sent_by,through,parts}}'::text[] <> '{{}}' THEN
        RETURN 'has other names than the protocol says';
    ELSIF jsonb_typeof(ticket) <> 'object' OR NOT ticket ?& '{{box,queue,location,epoch,number}}'
        OR ticket - '{{box,queue,location,epoch,number}}'::text[] <> '{{}}' THEN
        RETURN 'has other names in sent_by than the protocol says';
    ELSIF jsonb_typeof(ticket -> 'queue') <> 'string' OR ticket ->> 'queue' = '' OR jsonb_typeof(ticket -> 'location') <> 'string'
        OR ticket ->> 'location' = '' OR jsonb_typeof(ticket -> 'epoch') <> 'number' OR ticket ->> 'epoch' !~ '^\d{{1,18}}$'
        OR jsonb_typeof(ticket -> 'number') <> 'number' OR ticket ->> 'number' !~ '^\d{{1,18}}$' THEN
        RETURN 'has a sent_by that is no ticket';
    ELSIF jsonb_typeof(fields -> 'type') <> 'string' OR jsonb_typeof(fields -> 'content_type') NOT IN ('string', 'null')
        OR jsonb_typeof(fields -> 'space') <> 'string' OR length(fields ->> 'space') > 128 THEN
        RETURN 'has a type, a content type or a space that is no text';
    ELSIF jsonb_typeof(fields -> 'through') <> 'array' OR jsonb_array_length(fields -> 'through') = 0
        OR EXISTS (
            SELECT FROM jsonb_array_elements(fields -> 'through') AS box
            WHERE (jsonb_typeof(box) = 'string' AND box #>> '{{}}' ~ '^[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}$') IS NOT TRUE
        ) OR fields #> '{{through,0}}' <> coalesce(ticket -> 'box', 'null') THEN
        RETURN 'names no boxes that it went through, its home first';
    ELSIF jsonb_typeof(fields -> 'parts') <> 'array' OR EXISTS (
        SELECT FROM jsonb_array_elements(fields -> 'parts') AS part
        WHERE (
            jsonb_typeof(part) = 'object' AND part ?& '{{name,content_type,size}}'
            AND part - '{{name,content_type,size}}'::text[] = '{{}}' AND jsonb_typeof(part -> 'name') = 'string'
            AND length(part ->> 'name') BETWEEN 1 AND 256
            AND (part -> 'content_type' = 'null' OR jsonb_typeof(part -> 'content_type') = 'string' AND part ->> 'content_type' <> '')
            AND jsonb_typeof(part -> 'size') = 'number' AND part ->> 'size' ~ '^\d{{1,9}}$'
        ) IS NOT TRUE
    ) THEN
        RETURN 'has parts that are none';
    ELSIF (
        SELECT count(DISTINCT part ->> 'name') < count(*) OR sum((part ->> 'size')::bigint) > size
        FROM jsonb_array_elements(fields -> 'parts') AS part
    ) THEN
        RETURN 'has parts that are larger than the message, or have one name';
    END IF;
    RETURN {schema}.wrong_message(
        message_id, fields ->> 'type', 'link', fields ->> 'content_type', fields -> 'context', fields -> 'property_types', ''
    );
END
$function$;
