-- Parts from SQL and in views; full queues; what is in hand; growth.

-- The messages that the box has, each with its ticket. Reads without locks.
CREATE OR REPLACE VIEW {schema}.messages AS
SELECT
    stored.message_id,
    stored.type,
    run.location,
    run.epoch + (run.number - 1 + stored.position) / place.last_number AS epoch,
    (run.number - 1 + stored.position) % place.last_number + 1 AS number,
    stored.content_type,
    stored.context,
    stored.body,
    stored.received_at,
    coalesce(stored.parts, 0) AS parts
FROM {schema}.spool AS stored
JOIN {schema}.tickets AS run USING (arrival_id)
JOIN {schema}.locations AS place USING (location);

-- Where each message is: a row for each queue that has it, or had it and keeps it, or for nobody having wanted it.
-- `status`: arrived, held, queued, in_hand; late, duplicate, invalid, rejected, dead; done; unrouted. `since`: in that status,
-- as far as that is known. `waits`: only subscriptions that aren't started have collected it.
CREATE OR REPLACE VIEW {schema}.message_places AS
SELECT
    stored.message_id,
    stored.type,
    run.location,
    run.epoch + (run.number - 1 + place.position) / start.last_number AS epoch,
    (run.number - 1 + place.position) % start.last_number + 1 AS number,
    queue.queue,
    place.group_key,
    place.status,
    place.reason,
    place.sequence,
    place.ordinal,
    place.priority,
    place.attempt,
    place.visible_at,
    EXISTS (
        SELECT FROM {schema}.subscriptions AS one WHERE one.subscription_id = ANY (place.subscription_ids)
    ) AND NOT EXISTS (
        SELECT FROM {schema}.subscriptions AS one
        WHERE one.subscription_id = ANY (place.subscription_ids) AND one.state = 'started'
    ) AS waits,
    ARRAY(
        SELECT one.subscription::text FROM {schema}.subscriptions AS one
        WHERE one.subscription_id = ANY (place.subscription_ids) ORDER BY 1
    ) AS subscriptions,
    stored.received_at,
    place.since,
    length(stored.body) AS body_bytes,
    run.stamp,
    place.arrival_id,
    place.position,
    place.arrival,
    coalesce(stored.parts, 0) AS parts
FROM (
    SELECT
        arrival_id, position, queue_id, group_key, status, NULL AS reason, sequence, ordinal, priority, attempt,
        visible_at, subscription_ids, arrival, NULL::timestamptz AS since
    FROM {schema}.entries
    UNION ALL
    SELECT
        arrival_id, position, queue_id, group_key, disposition, reason, sequence, ordinal, priority, attempt,
        NULL, subscription_ids, NULL, aside_at
    FROM {schema}.aside
    UNION ALL
    SELECT
        arrival_id, position, queue_id, group_key, 'done', NULL, sequence, ordinal, NULL, attempt,
        NULL, subscription_ids, NULL, done_at
    FROM {schema}.history
    UNION ALL
    SELECT
        arrival_id, position, NULL, NULL, 'unrouted', problem, NULL, NULL, NULL, 0, NULL, '{{}}'::integer[], NULL,
        unrouted_at
    FROM {schema}.unrouted
) AS place
JOIN {schema}.spool AS stored USING (arrival_id, position)
JOIN {schema}.tickets AS run USING (arrival_id)
JOIN {schema}.locations AS start USING (location)
LEFT JOIN {schema}.queues AS queue USING (queue_id);

DROP FUNCTION {schema}.publish(text, bytea, jsonb, text, text, text);

-- The queue that a message of SQL's is addressed to, if that is full, refuses what doesn't fit, and the message surely
-- fills no hole there: its group and number are told, as text and number, and nothing later of its group waits. NULL: it
-- comes in. What is only in the body the kernel alone can find; and nobody waits within a statement.
CREATE FUNCTION {schema}.full_for(context jsonb) RETURNS text
LANGUAGE plpgsql STABLE
SET enable_seqscan = off
AS $function$
DECLARE
    place record;
    fills boolean := FALSE;
BEGIN
    SELECT queue_id, queue, (definition ->> 'max_messages')::bigint AS most, definition #>> '{{policy,name}}' AS policy,
        definition ->> 'group' AS grouped, definition ->> 'sequence' AS numbered
    INTO place
    FROM {schema}.queues
    WHERE queue = context ->> 'to' AND definition ->> 'max_messages' IS NOT NULL
        AND definition ->> 'when_full' = 'refuse';
    IF NOT FOUND OR NOT ({schema}.is_owner() OR place.queue_id = ANY ({schema}.permitted('publish'))) THEN
        RETURN NULL;
    END IF;
    IF ({schema}.room_in(ARRAY[place.queue_id], ARRAY[place.most]))[1] > 0 THEN
        RETURN NULL;
    END IF;
    IF place.policy IN ('standard', 'unit_of_work') THEN
        fills := coalesce(jsonb_typeof(context -> place.grouped), 'null') NOT IN ('string', 'number')
            OR coalesce(context ->> place.numbered, '') !~ '^-?\d{{1,18}}$'
            OR EXISTS (
                SELECT FROM {schema}.types
                WHERE coalesce(
                    definition #>> ARRAY['properties', place.grouped, 'type'],
                    definition #>> ARRAY['properties', place.grouped]
                ) NOT IN ('string', 'long')
            )
            OR ({schema}.waited_for(
                place.queue_id, place.policy = 'unit_of_work', ARRAY[NULL::text],
                ARRAY[context ->> place.grouped], ARRAY[(context ->> place.numbered)::bigint]
            ))[1];
    END IF;
    RETURN CASE WHEN NOT fills THEN place.queue END;
END
$function$;

-- A part of a message, as SQL gives it to `publish`.
CREATE TYPE {schema}.part AS (name text, content_type text, body bytea);

-- Take a message in, within the caller's transaction: for triggers, procedures and other languages. It gets its ticket
-- when the transaction commits, and is then routed by whoever comes first. Answers with its id. A message whose id was
-- published before is left out. docs/how-to/publish-from-sql.md describes it.
CREATE FUNCTION {schema}.publish(
    type text, body bytea, context jsonb DEFAULT '{{}}', message_id text DEFAULT NULL, content_type text DEFAULT NULL,
    location text DEFAULT 'box', parts {schema}.part[] DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
DECLARE
    id text := coalesce(message_id, {schema}.new_message_id());
    wrong text;
    permitted integer[];
    arrival bigint;
BEGIN
    PERFORM {schema}.permit('publish', ARRAY[]::integer[]);
    wrong := CASE
        WHEN coalesce(type, '') = '' THEN 'a message needs a type'
        WHEN body IS NULL THEN 'the body of a message can''t be NULL, but it can be empty'
        WHEN octet_length(body) > 536870912 THEN 'the body of a message can have 536870912 bytes at most'
        WHEN content_type = '' THEN 'the content type of a message can''t be empty, but it can be NULL'
        WHEN id = '' THEN 'the id of a message can''t be empty; left out, it is made'
        WHEN coalesce(jsonb_typeof(context), 'null') <> 'object' THEN
            'the context of a message is a JSON object: its properties'
        WHEN coalesce(length(location), 0) NOT BETWEEN 1 AND 128 THEN 'the name of a location has 1 to 128 characters'
        WHEN location <> 'box' AND context -> 'location' <> to_jsonb(location) THEN
            'the location is given twice: as an argument, and as a property'
    END;
    IF wrong IS NULL AND context <> '{{}}' THEN
        SELECT format('the property "%s" %s', left(property.key, 128), looked.problem) INTO wrong
        FROM jsonb_each(context) AS property, LATERAL (SELECT CASE
            WHEN property.key = ANY ('{{type,message_id,ticket,epoch,received_at}}') THEN
                'can''t be given: it is an argument, or the box gives it'
            WHEN jsonb_typeof(property.value) IN ('object', 'array') THEN
                'can''t be an ' || jsonb_typeof(property.value) || ': a string, a number, a boolean or null'
            WHEN jsonb_typeof(property.value) = 'number' AND length(property.value::text) > 100 THEN
                'has more digits than a property can have'
            WHEN property.key = 'location' AND jsonb_typeof(property.value) <> 'null' AND (
                jsonb_typeof(property.value) <> 'string'
                OR length(property.value #>> '{{}}') NOT BETWEEN 1 AND 128
            ) THEN 'is not a location''s name: 1 to 128 characters'
        END AS problem) AS looked
        WHERE looked.problem IS NOT NULL ORDER BY property.key LIMIT 1;
    END IF;
    IF wrong IS NULL AND cardinality(parts) > 0 THEN
        SELECT format('part %s %s', part.number, looked.problem) INTO wrong
        FROM unnest(parts) WITH ORDINALITY AS part (name, content_type, body, number), LATERAL (SELECT CASE
            WHEN coalesce(length(part.name), 0) NOT BETWEEN 1 AND 256 THEN 'needs a name of 1 to 256 characters'
            WHEN part.content_type = '' THEN 'can''t have an empty content type, but it can be NULL'
            WHEN part.body IS NULL THEN 'can''t be NULL, but its body can be empty'
            WHEN part.number > (
                SELECT min(other.number) FROM unnest(parts) WITH ORDINALITY AS other (name, content_type, body, number)
                WHERE other.name = part.name
            ) THEN format('has the name of another one, "%s"', left(part.name, 128))
        END AS problem) AS looked
        WHERE looked.problem IS NOT NULL ORDER BY part.number LIMIT 1;
        IF octet_length(body) + (SELECT sum(octet_length(part.body)) FROM unnest(parts) AS part) > 536870912 THEN
            wrong := 'the body of a message can have 536870912 bytes at most, its parts included';
        END IF;
    END IF;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION '%', wrong USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO {schema}.message_ids (message_id) VALUES (id) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN id;
    END IF;
    IF context ? 'to' AND {schema}.full_for(context) IS NOT NULL THEN
        RAISE EXCEPTION 'the queue "%" is full', context ->> 'to' USING
            ERRCODE = 'configuration_limit_exceeded',
            HINT = 'publish the message again later';
    END IF;
    IF location <> 'box' THEN
        context := context || jsonb_build_object('location', location);
    END IF;
    IF NOT {schema}.is_owner() THEN
        permitted := {schema}.permitted('publish');
    END IF;
    INSERT INTO {schema}.arrivals (location, count, queue_ids, publisher, permitted)
    VALUES (coalesce(context ->> 'location', location), 1, '{{0}}', {schema}.caller(), permitted)
    RETURNING arrival_id INTO arrival;
    INSERT INTO {schema}.spool (arrival_id, position, message_id, type, content_type, context, body, parts)
    VALUES (arrival, 0, id, type, content_type, context, body, nullif(cardinality(parts), 0));
    IF cardinality(parts) > 0 THEN
        INSERT INTO {schema}.message_parts (arrival_id, position, number, name, content_type, body)
        SELECT arrival, 0, part.number, part.name, part.content_type, part.body
        FROM unnest(parts) WITH ORDINALITY AS part (name, content_type, body, number);
    END IF;
    RETURN id;
END
$function$;

-- How many parts it has; NULL: none.
ALTER TABLE {schema}.staged_messages ADD COLUMN parts integer;

-- What they have beside their bodies. `place` is that of the message in its part of the batch.
CREATE UNLOGGED TABLE {schema}.staged_message_parts (
    part_id bigint NOT NULL,
    place bigint NOT NULL,
    number bigint NOT NULL,
    name text NOT NULL,
    content_type text,
    body bytea NOT NULL
);
CREATE INDEX staged_message_parts_of_part ON {schema}.staged_message_parts (part_id, place);

-- Take the staged parts of a batch in, in their order, as one publishing. The caller holds the definitions by which
-- they were routed, and the writer's row. Messages that were published before are left out, unless they `repeat`: one
-- message of a pipeline may go to several queues. Answers with how many are taken in.
CREATE OR REPLACE FUNCTION {schema}.merge_parts(of_parts bigint[], repeat boolean) RETURNS bigint
LANGUAGE plpgsql
AS $function$
DECLARE
    moment_us bigint := {schema}.now_us();
    taken bigint;
BEGIN
    WITH staged AS MATERIALIZED (
        SELECT message.part_id, message.place, message.message_id, message.location,
            row_number() OVER (ORDER BY part.at, message.place) AS number,
            CASE WHEN repeat THEN 1
                ELSE row_number() OVER (PARTITION BY message.message_id ORDER BY part.at, message.place) END AS copy
        FROM unnest(of_parts) WITH ORDINALITY AS part (part_id, at)
        JOIN {schema}.staged_messages AS message USING (part_id)
    ), fresh AS (
        -- In one order for all publishers, so that two of them never wait for each other crosswise.
        INSERT INTO {schema}.message_ids (message_id)
        SELECT message_id FROM staged WHERE copy = 1 AND NOT repeat ORDER BY message_id
        ON CONFLICT DO NOTHING
        RETURNING message_id
    ), numbered AS MATERIALIZED (
        SELECT part_id, place, location, row_number() OVER (PARTITION BY location ORDER BY number) - 1 AS position
        FROM staged LEFT JOIN fresh USING (message_id)
        WHERE copy = 1 AND (repeat OR fresh.message_id IS NOT NULL)
    ), arrived AS (
        INSERT INTO {schema}.arrivals (location, count, queue_ids)
        SELECT location, count(*), ARRAY(
            SELECT DISTINCT queue_id FROM {schema}.staged_entries WHERE part_id = ANY (of_parts)
        ) FROM numbered GROUP BY location
        RETURNING arrival_id, location
    ), placed AS MATERIALIZED (
        SELECT part_id, place, arrival_id, position FROM numbered JOIN arrived USING (location)
    ), spooled AS (
        INSERT INTO {schema}.spool (
            arrival_id, position, message_id, type, content_type, context, property_types, body, destinations, parts
        )
        SELECT
            arrival_id, position, message_id, type, content_type, context::jsonb, property_types::jsonb, body,
            destinations, parts
        FROM placed JOIN {schema}.staged_messages USING (part_id, place)
    ), beside AS (
        INSERT INTO {schema}.message_parts (arrival_id, position, number, name, content_type, body)
        SELECT arrival_id, position, number, name, content_type, body
        FROM placed JOIN {schema}.staged_message_parts USING (part_id, place)
    ), entered AS (
        INSERT INTO {schema}.entries (
            queue_id, group_key, rank, arrival_id, position, sequence, size, priority, subscription_ids
        )
        SELECT
            queue_id, group_key, moment_us - (priority - 5) * 10000000, arrival_id, position, sequence, size,
            priority, subscription_ids
        FROM placed JOIN {schema}.staged_entries AS entry USING (part_id, place) WHERE entry.problem IS NULL
    ), refused AS (
        INSERT INTO {schema}.aside (
            entry_id, queue_id, group_key, disposition, reason, arrival_id, position, sequence, size, priority,
            subscription_ids
        )
        SELECT
            nextval('{schema}.entry_ids'), queue_id, group_key, 'invalid', entry.problem, arrival_id, position,
            sequence, size, priority, subscription_ids
        FROM placed JOIN {schema}.staged_entries AS entry USING (part_id, place) WHERE entry.problem IS NOT NULL
    ), nowhere AS (
        INSERT INTO {schema}.unrouted (arrival_id, position, problem)
        SELECT arrival_id, position, problem
        FROM placed JOIN {schema}.staged_messages USING (part_id, place) WHERE destinations = 0
    )
    SELECT count(*) INTO taken FROM placed;
    DELETE FROM {schema}.staged_entries WHERE part_id = ANY (of_parts);
    DELETE FROM {schema}.staged_message_parts WHERE part_id = ANY (of_parts);
    DELETE FROM {schema}.staged_messages WHERE part_id = ANY (of_parts);
    DELETE FROM {schema}.parts WHERE part_id = ANY (of_parts);
    RETURN taken;
END
$function$;

-- `incarnation`: that of a group which isn't known; higher than any of a group that was forgotten and left no row.
ALTER TABLE {schema}.queues ADD COLUMN incarnation integer NOT NULL DEFAULT 0;

-- A queue says when its groups expire; no more in which tablespace it is.
UPDATE {schema}.queues SET definition = definition - 'tablespace' || '{{"expire_after": null}}';

-- The groups as they stand, read without locks. `state`: what a group shows; the rules are those of kernel/states.py.
-- `arrived`: not judged yet, so not in the state either; `in_hand`: of a pipeline. `hole_since`, `due_at`: NULL where nothing is open, or due.
-- `next`, `last_released` and `hole_through` are sequences as numbers: microseconds where a queue goes by time.
CREATE OR REPLACE VIEW {schema}.group_states AS
WITH locked AS MATERIALIZED (
    SELECT (classid::bigint << 32) | objid::bigint AS lock FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
), known AS (
    SELECT
        queue_id, group_key, incarnation, flags, next, last, ordinal, since, reports, due_at
    FROM {schema}.groups
    UNION ALL
    SELECT DISTINCT
        queue_id, group_key, NULL::integer, 0::bigint, NULL::bigint, (-9223372036854775808)::bigint, 0::bigint,
        (-4611686018427387904)::bigint, 0::bigint, NULL::bigint
    FROM {schema}.entries AS entry
    WHERE status = 'arrived' AND NOT EXISTS (
        SELECT FROM {schema}.groups AS judged
        WHERE judged.queue_id = entry.queue_id AND judged.group_key = entry.group_key
    )
)
SELECT
    place.queue,
    known.group_key,
    CASE
        WHEN known.flags & 2 <> 0 THEN 'closed'
        WHEN fact.suspended THEN 'suspended'
        WHEN known.flags & 16 <> 0 THEN 'faulted'
        WHEN fact.locked THEN 'locked'
        WHEN fact.hole AND policy.hole_timeout IS NOT NULL AND known.reports > policy.hole_retries THEN 'timed_out'
        WHEN fact.hole THEN 'waiting'
        ELSE 'ready'
    END AS state,
    fact.locked,
    CASE WHEN policy.name = 'standard' AND (policy.start <> 'first' OR known.flags & 1 <> 0) THEN known.next END AS next,
    entry.arrived,
    entry.held,
    entry.queued,
    CASE WHEN fact.hole THEN to_timestamp(known.since / 1e6) END AS hole_since,
    CASE WHEN fact.hole THEN entry.lowest - policy.increment END AS hole_through,
    nullif(known.last, -9223372036854775808) AS last_released,
    known.ordinal,
    coalesce(known.incarnation, place.incarnation) AS incarnation,
    to_timestamp(known.due_at / 1e6) AS due_at,
    CASE WHEN fact.suspended AND said.action = 'suspend' THEN said.actor END AS suspended_by,
    CASE WHEN fact.suspended AND said.action = 'suspend' THEN said.reason END AS suspended_because,
    entry.in_hand
FROM known
JOIN {schema}.queues AS place USING (queue_id)
CROSS JOIN LATERAL jsonb_to_record(place.definition -> 'policy') AS policy (
    name text, start text, increment bigint, hole_timeout float8, hole_retries integer
)
CROSS JOIN LATERAL (
    SELECT
        coalesce((
            SELECT action = 'suspend' FROM {schema}.requests AS request
            WHERE request.queue_id = known.queue_id AND request.group_key = known.group_key
                AND request.action <> 'look'
            ORDER BY request_id DESC LIMIT 1
        ), known.flags & 8 <> 0) AS suspended,
        {schema}.group_lock(known.queue_id, known.group_key) IN (SELECT lock FROM locked) AS locked,
        policy.name = 'standard' AND known.since <> -4611686018427387904 AS hole
) AS fact
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE status = 'arrived') AS arrived,
        count(*) FILTER (WHERE status = 'held') AS held,
        count(*) FILTER (WHERE status = 'queued') AS queued,
        count(*) FILTER (WHERE status = 'in_hand') AS in_hand,
        min(sequence) FILTER (WHERE status = 'held' AND NOT late) AS lowest
    FROM {schema}.entries AS one
    WHERE one.queue_id = known.queue_id AND one.group_key = known.group_key
) AS entry
LEFT JOIN LATERAL (
    SELECT action, actor, reason FROM {schema}.operator_log AS log
    WHERE log.queue = place.queue AND log.group_key = known.group_key
        AND action IN ('suspend', 'resume', 'skip_message')
    ORDER BY operation_id DESC LIMIT 1
) AS said ON TRUE
WHERE policy.name <> 'unordered';

-- What each queue has, and what it has set aside. `in_hand`: of a pipeline; what a worker has is counted as it was
-- before. `oldest`: when the one came that has been there longest.
CREATE OR REPLACE VIEW {schema}.queue_counts AS
SELECT
    place.queue,
    place.definition -> 'policy' ->> 'name' AS policy,
    place.enabled,
    place.owner,
    entry.arrived,
    entry.held,
    entry.queued,
    entry.in_hand,
    aside.late,
    aside.duplicate,
    aside.invalid,
    aside.rejected,
    aside.dead,
    to_timestamp(entry.oldest_us / 1e6) AS oldest,
    (place.definition ->> 'max_messages')::bigint AS max_messages
FROM {schema}.queues AS place
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE status = 'arrived') AS arrived,
        count(*) FILTER (WHERE status = 'held') AS held,
        count(*) FILTER (WHERE status = 'queued') AS queued,
        count(*) FILTER (WHERE status = 'in_hand') AS in_hand,
        min(rank + (priority - 5) * 10000000) AS oldest_us
    FROM {schema}.entries AS one WHERE one.queue_id = place.queue_id
) AS entry
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE disposition = 'late') AS late,
        count(*) FILTER (WHERE disposition = 'duplicate') AS duplicate,
        count(*) FILTER (WHERE disposition = 'invalid') AS invalid,
        count(*) FILTER (WHERE disposition = 'rejected') AS rejected,
        count(*) FILTER (WHERE disposition = 'dead') AS dead
    FROM {schema}.aside AS one WHERE one.queue_id = place.queue_id
) AS aside;

-- How large the tables were, now and then, for a week: what has come since then. Estimates of PostgreSQL's, as the sizes
-- that it is compared with. Written by the clean-up.
CREATE TABLE {schema}.samples (
    taken_at timestamptz NOT NULL DEFAULT now(),
    name text NOT NULL,
    rows bigint NOT NULL,
    size_bytes bigint NOT NULL,
    PRIMARY KEY (taken_at, name)
);

-- Write down what a turn decided, and give the messages that it hands out. The first arrays: a value for each of its groups; then the entries that stay (held,
-- or released and not handed out), those that are set aside, and the requests that it has obeyed. All groups are
-- locked by the caller.
CREATE OR REPLACE FUNCTION {schema}.decide(
    of_queue integer, group_keys text[], states bigint[], skipped text[], arrivals bigint[], decided text[],
    due_ats bigint[], ready_ranks bigint[],
    kept_ids bigint[], kept_statuses text[], kept_arrivals bigint[], kept_ordinals bigint[], kept_late boolean[],
    kept_waits boolean[],
    aside_ids bigint[], aside_dispositions text[], aside_reasons text[], aside_ordinals bigint[], obeyed_ids bigint[]
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $function$
BEGIN
    PERFORM {schema}.permit_entries(of_queue, kept_ids || aside_ids);
    INSERT INTO {schema}.groups AS known (
        queue_id, group_key, incarnation, flags, first, next, mark, last, ordinal, since, reports, clock, skipped,
        arrivals, decided, due_at, ready_rank
    )
    SELECT
        of_queue, new.group_key, (SELECT incarnation FROM {schema}.queues WHERE queue_id = of_queue), states[at + 1], states[at + 2], states[at + 3], states[at + 4], states[at + 5],
        states[at + 6], states[at + 7], states[at + 8], states[at + 9], new.skipped::bigint[], new.arrivals,
        new.decided::bigint[], new.due_at, new.ready_rank
    FROM unnest(group_keys, skipped, arrivals, decided, due_ats, ready_ranks)
        WITH ORDINALITY AS new (group_key, skipped, arrivals, decided, due_at, ready_rank, place),
        LATERAL (SELECT (place::integer - 1) * 9 AS at) AS part
    ON CONFLICT (queue_id, group_key) DO UPDATE SET
        flags = excluded.flags, first = excluded.first, next = excluded.next, mark = excluded.mark,
        last = excluded.last, ordinal = excluded.ordinal, since = excluded.since, reports = excluded.reports,
        clock = excluded.clock, skipped = excluded.skipped, arrivals = excluded.arrivals, decided = excluded.decided,
        due_at = excluded.due_at, ready_rank = excluded.ready_rank, touched_at = now();
    IF cardinality(kept_ids) > 0 THEN
        UPDATE {schema}.entries AS entry SET
            status = kept.status, arrival = kept.arrival, ordinal = kept.ordinal, late = kept.late, waits = kept.waits
        FROM unnest(kept_ids, kept_statuses, kept_arrivals, kept_ordinals, kept_late, kept_waits)
            AS kept (entry_id, status, arrival, ordinal, late, waits)
        WHERE entry.entry_id = kept.entry_id;
    END IF;
    IF cardinality(aside_ids) > 0 THEN
        WITH gone AS (
            DELETE FROM {schema}.entries AS entry
            USING unnest(aside_ids, aside_dispositions, aside_reasons, aside_ordinals)
                AS judged (entry_id, disposition, reason, ordinal)
            WHERE entry.entry_id = judged.entry_id
            RETURNING entry.*, judged.disposition, judged.reason, judged.ordinal AS left_as
        )
        INSERT INTO {schema}.aside (
            entry_id, queue_id, group_key, disposition, reason, arrival_id, position, sequence, size, priority,
            subscription_ids, ordinal, attempt
        )
        SELECT
            entry_id, queue_id, group_key, disposition, reason, arrival_id, position, sequence, size, priority,
            subscription_ids, left_as, attempt
        FROM gone;
    END IF;
    IF cardinality(obeyed_ids) > 0 THEN
        DELETE FROM {schema}.requests WHERE request_id = ANY (obeyed_ids) AND queue_id = of_queue;
    END IF;
END
$function$;

DROP FUNCTION {schema}.definitions();

-- Everything that is defined, with its version, as of one moment. Whoever routes has to know all of it.
CREATE FUNCTION {schema}.definitions()
RETURNS TABLE (kind text, id bigint, name text, definition jsonb, state text, owner text, incarnation integer)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN QUERY
        SELECT 'version', max(version), NULL, NULL::jsonb, NULL, NULL, NULL::integer FROM {schema}.changes
        UNION ALL
        SELECT 'type', NULL, type, definition, NULL, NULL, NULL FROM {schema}.types
        UNION ALL
        SELECT 'queue', queue_id, queue, definition, CASE WHEN enabled THEN 'on' ELSE 'off' END, owner, incarnation
        FROM {schema}.queues
        UNION ALL
        SELECT 'subscription', subscription_id, subscription, definition, state, NULL, NULL
        FROM {schema}.subscriptions;
END
$function$;

-- Forget groups of a queue that were idle since before a moment, from a key on, in steps of so many: they leave no row,
-- and one that comes again begins in a higher incarnation. Those that somebody has, or that have anything to wait for, that
-- an operator or a fault has stopped, or whose instance runs, stay. Answers how many, and behind which key it goes on;
-- NULL: that was all.
CREATE FUNCTION {schema}.forget_expired(
    of_queue integer, before timestamptz, after_key text, how_many integer, OUT forgotten bigint, OUT through text
)
LANGUAGE plpgsql
AS $function$
DECLARE
    candidates text[];
    mine text[];
    latest integer;
BEGIN
    SELECT array_agg(group_key ORDER BY group_key), count(*) INTO candidates, forgotten FROM (
        SELECT group_key FROM {schema}.groups
        WHERE queue_id = of_queue AND group_key > after_key AND touched_at < before
            AND ready_rank IS NULL AND due_at IS NULL AND flags & 24 = 0
        ORDER BY group_key LIMIT how_many
    ) AS idle;
    through := CASE WHEN forgotten = how_many THEN candidates[how_many] END;
    forgotten := 0;
    IF candidates IS NULL THEN
        RETURN;
    END IF;
    -- Before the groups, as everybody takes it who takes both.
    PERFORM pg_advisory_xact_lock(hashtextextended('seriatim definitions', '{schema}'::regnamespace::oid::bigint));
    SELECT array_agg(group_key) INTO mine FROM unnest(candidates) AS wanted (group_key)
    WHERE pg_try_advisory_xact_lock({schema}.group_lock(of_queue, group_key));
    -- A statement of its own: what it sees is younger than the locks.
    WITH gone AS (
        DELETE FROM {schema}.groups AS known
        WHERE known.queue_id = of_queue AND known.group_key = ANY (mine) AND known.touched_at < before
            AND known.ready_rank IS NULL AND known.due_at IS NULL AND known.flags & 24 = 0
            AND NOT EXISTS (
                SELECT FROM {schema}.entries AS entry
                WHERE entry.queue_id = of_queue AND entry.group_key = known.group_key
            ) AND NOT EXISTS (
                SELECT FROM {schema}.requests AS request
                WHERE request.queue_id = of_queue AND request.group_key = known.group_key
            ) AND NOT EXISTS (
                SELECT FROM {schema}.instances AS instance
                WHERE instance.queue_id = of_queue AND instance.group_key = known.group_key
            )
        RETURNING known.incarnation
    )
    SELECT count(*), max(incarnation) + 1 INTO forgotten, latest FROM gone;
    UPDATE {schema}.queues SET incarnation = latest WHERE queue_id = of_queue AND incarnation < latest;
    IF FOUND THEN
        INSERT INTO {schema}.changes (version, what)
        SELECT max(version) + 1, 'groups of a queue that had expired were forgotten' FROM {schema}.changes;
    END IF;
END
$function$;

-- Nobody but the owner.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC;
