-- Pipelines that read queues, and write to them.

-- The queues that pipelines read. `reader`: what the pipeline's checkpoint knows itself by. `batch`: the newest batch
-- that is complete, and may be handed over again and again; `done`: through this one they are worked on, and
-- those before it are gone.
CREATE TABLE {schema}.readers (
    queue_id integer PRIMARY KEY REFERENCES {schema}.queues,
    reader text NOT NULL,
    batch bigint NOT NULL DEFAULT 0,
    done bigint NOT NULL DEFAULT 0 CHECK (done <= batch)
);

-- The batches of a queue before this one go, or are kept as history, as `complete` does it.
CREATE FUNCTION {schema}.drop_batches(of_queue integer, before bigint, keep text) RETURNS void
LANGUAGE plpgsql
-- A plan that is made while the tables are small must not be one that reads all of them when they are large.
SET enable_seqscan = off
SET enable_mergejoin = off
AS $function$
BEGIN
    WITH finished AS (
        DELETE FROM {schema}.entries AS entry WHERE entry.queue_id = of_queue AND entry.batch < before
        RETURNING entry.*
    ), kept AS (
        INSERT INTO {schema}.history (
            entry_id, queue_id, group_key, incarnation, ordinal, late, arrival_id, position, sequence,
            subscription_ids, attempt
        )
        SELECT
            entry_id, queue_id, group_key, coalesce(known.incarnation, 0), finished.ordinal, late, arrival_id,
            position, sequence, subscription_ids, attempt
        FROM finished LEFT JOIN {schema}.known_groups AS known USING (queue_id, group_key)
        WHERE keep = 'everything' OR keep = 'faults' AND attempt > 0
    ), alone AS (
        DELETE FROM {schema}.spool AS stored USING finished
        WHERE stored.arrival_id = finished.arrival_id AND stored.position = finished.position
            AND stored.destinations = 1 AND (keep = 'nothing' OR keep = 'faults' AND finished.attempt = 0)
        RETURNING stored.arrival_id, stored.position
    )
    INSERT INTO {schema}.dropped (arrival_id, position)
    SELECT arrival_id, position FROM finished
    WHERE (keep = 'nothing' OR keep = 'faults' AND attempt = 0)
        AND NOT EXISTS (
            SELECT FROM alone WHERE alone.arrival_id = finished.arrival_id AND alone.position = finished.position
        );
END
$function$;

-- What a pipeline has worked on is done, through a batch. Those before it go; this one stays until the next is worked on.
CREATE FUNCTION {schema}.complete_batches(of_queue integer, by_reader text, through bigint, keep text) RETURNS boolean
LANGUAGE plpgsql
AS $function$
BEGIN
    UPDATE {schema}.readers SET done = least(greatest(done, through), batch)
    WHERE queue_id = of_queue AND reader = by_reader;
    IF NOT FOUND THEN
        RETURN FALSE;
    END IF;
    PERFORM {schema}.drop_batches(of_queue, through, keep);
    RETURN TRUE;
END
$function$;

-- Make a queue a pipeline's own. Answers with the pipeline that has it, where it is another one's; with nothing where a
-- reader that isn't new is known no more. One that has never had a batch worked on makes way for a new one; one that has
-- does only for somebody who says so. What it had in hand and hadn't finished is the first that the new one gets.
CREATE FUNCTION {schema}.claim_queue(
    of_queue integer, by_reader text, by_pipeline text, is_new boolean, takes_over boolean
) RETURNS text
LANGUAGE plpgsql
AS $function$
DECLARE
    known record;
    named text;
    keeps text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('seriatim definitions', '{schema}'::regnamespace::oid::bigint));
    SELECT owner, coalesce(definition ->> 'keep', 'nothing') INTO named, keeps
    FROM {schema}.queues WHERE queue_id = of_queue FOR NO KEY UPDATE;
    SELECT reader, batch, done INTO known FROM {schema}.readers WHERE queue_id = of_queue;
    IF known.reader = by_reader THEN
        RETURN NULL;
    END IF;
    IF NOT is_new OR known.done > 0 AND NOT takes_over THEN
        RETURN coalesce(named, '');
    END IF;
    PERFORM {schema}.drop_batches(of_queue, known.done + 1, keeps);
    -- Its batches are numbered from 1 on: whether it has finished one is told by that.
    UPDATE {schema}.entries SET batch = batch - known.done WHERE queue_id = of_queue AND batch > 0 AND known.done > 0;
    INSERT INTO {schema}.readers (queue_id, reader, batch)
    VALUES (of_queue, by_reader, coalesce(known.batch - known.done, 0))
    ON CONFLICT (queue_id) DO UPDATE SET reader = excluded.reader, batch = excluded.batch, done = 0;
    IF named IS DISTINCT FROM by_pipeline THEN
        UPDATE {schema}.queues SET owner = by_pipeline WHERE queue_id = of_queue;
        INSERT INTO {schema}.changes (version, what)
        SELECT max(version) + 1, 'the pipeline ' || by_pipeline || ' reads a queue' FROM {schema}.changes;
    END IF;
    RETURN NULL;
END
$function$;

-- Give a queue back to workers: what its pipeline had in hand is queued again, in its place.
CREATE FUNCTION {schema}.release_queue(of_queue integer) RETURNS boolean
LANGUAGE plpgsql
AS $function$
DECLARE
    known record;
    keeps text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('seriatim definitions', '{schema}'::regnamespace::oid::bigint));
    SELECT coalesce(definition ->> 'keep', 'nothing') INTO keeps
    FROM {schema}.queues WHERE queue_id = of_queue FOR NO KEY UPDATE;
    SELECT reader, done INTO known FROM {schema}.readers WHERE queue_id = of_queue;
    IF NOT FOUND THEN
        RETURN FALSE;
    END IF;
    PERFORM {schema}.drop_batches(of_queue, known.done + 1, keeps);
    DELETE FROM {schema}.readers WHERE queue_id = of_queue;
    WITH back AS (
        UPDATE {schema}.entries SET
            status = CASE WHEN ordinal IS NULL THEN 'arrived' ELSE 'queued' END, batch = NULL
        WHERE queue_id = of_queue AND batch IS NOT NULL
        RETURNING group_key, rank
    )
    UPDATE {schema}.known_groups AS one SET ready_rank = least(one.ready_rank, first.rank)
    FROM (SELECT group_key, min(rank) AS rank FROM back GROUP BY group_key) AS first
    WHERE one.queue_id = of_queue AND one.group_key = first.group_key;
    UPDATE {schema}.queues SET owner = NULL WHERE queue_id = of_queue;
    INSERT INTO {schema}.changes (version, what)
    SELECT max(version) + 1, 'no pipeline reads a queue any more' FROM {schema}.changes;
    RETURN TRUE;
END
$function$;

-- Put into a reader's next batch what a turn has released; the groups are locked by the caller.
CREATE FUNCTION {schema}.put_in_batch(
    of_queue integer, in_batch bigint, entry_ids bigint[], ordinals bigint[], lates boolean[]
) RETURNS void
LANGUAGE sql
AS $function$
    UPDATE {schema}.entries AS entry SET
        status = 'in_hand', batch = in_batch, ordinal = handed.ordinal, late = handed.late
    FROM unnest(entry_ids, ordinals, lates) AS handed (entry_id, ordinal, late)
    WHERE entry.entry_id = ANY (ARRAY[handed.entry_id]) AND entry.queue_id = of_queue
$function$;

-- Put into a reader's next batch the next messages of a queue without order. Answers with how many.
CREATE FUNCTION {schema}.put_in_batch_unordered(of_queue integer, in_batch bigint, at_most bigint) RETURNS bigint
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    stopped integer[] := (
        SELECT array_agg(subscription_id) FROM {schema}.known_subscriptions WHERE queue_id = of_queue AND state <> 'started'
    );
    taken bigint;
BEGIN
    UPDATE {schema}.entries AS entry SET status = 'in_hand', batch = in_batch
    FROM (
        SELECT entry_id FROM {schema}.entries
        WHERE queue_id = of_queue AND status = 'arrived' AND (visible_at IS NULL OR visible_at <= clock_timestamp())
            AND (subscription_ids <> '{{}}' AND subscription_ids <@ stopped) IS NOT TRUE
        ORDER BY rank LIMIT at_most
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS next
    WHERE entry.entry_id = next.entry_id;
    GET DIAGNOSTICS taken = ROW_COUNT;
    RETURN taken;
END
$function$;

-- Who writes batches into the box, and the last one of each that is in it, by which version of the definitions it was
-- routed. A batch that comes again is in it already.
CREATE TABLE {schema}.writers (
    writer text PRIMARY KEY,
    batch bigint NOT NULL DEFAULT -1,
    version bigint,
    messages bigint NOT NULL DEFAULT 0,
    merged_at timestamptz NOT NULL DEFAULT now()
);

-- Names of parts, each given once: of its own, because that of an unlogged table's begins anew after a crash.
CREATE SEQUENCE {schema}.part_ids;

-- Parts of batches, staged by tasks that may be repeated; what a batch is made of is said when it is merged. None of
-- it outlives a crash of the server, which the merge notices; the batch is then staged anew.
CREATE UNLOGGED TABLE {schema}.parts (
    part_id bigint PRIMARY KEY DEFAULT nextval('{schema}.part_ids'),
    writer text NOT NULL,
    batch bigint NOT NULL,
    version bigint NOT NULL,
    messages bigint NOT NULL,
    entries bigint NOT NULL,
    staged_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX parts_of_writer ON {schema}.parts (writer, batch);
CREATE INDEX parts_by_age ON {schema}.parts (staged_at);

CREATE UNLOGGED TABLE {schema}.staged_messages (
    part_id bigint NOT NULL,
    place bigint NOT NULL,
    message_id text NOT NULL,
    type text NOT NULL,
    location text NOT NULL,
    content_type text,
    context text NOT NULL,
    property_types text,
    body bytea NOT NULL,
    destinations integer NOT NULL,
    problem text,
    -- How many parts it has; NULL: none.
    parts integer
);
CREATE INDEX staged_messages_of_part ON {schema}.staged_messages (part_id, place);

-- Where they go. `place` is that of the message in its part.
CREATE UNLOGGED TABLE {schema}.staged_entries (
    part_id bigint NOT NULL,
    place bigint NOT NULL,
    queue_id integer NOT NULL,
    group_key text,
    sequence bigint,
    size bigint,
    priority integer NOT NULL,
    problem text,
    subscription_ids integer[] NOT NULL
);
CREATE INDEX staged_entries_of_part ON {schema}.staged_entries (part_id, place);

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
CREATE FUNCTION {schema}.merge_parts(of_parts bigint[], repeat boolean) RETURNS bigint
LANGUAGE plpgsql
-- How many rows a part has no statistics say: a batch that is taken for one row would be compared with itself row by row.
SET enable_nestloop = off
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
        WHERE message.part_id = ANY (of_parts)
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
        FROM placed JOIN {schema}.staged_messages AS message USING (part_id, place)
        WHERE message.part_id = ANY (of_parts)
    ), beside AS (
        INSERT INTO {schema}.message_parts (arrival_id, position, number, name, content_type, body)
        SELECT arrival_id, position, number, name, content_type, body
        FROM placed JOIN {schema}.staged_message_parts AS part USING (part_id, place)
        WHERE part.part_id = ANY (of_parts)
    ), entered AS (
        INSERT INTO {schema}.entries (
            queue_id, group_key, rank, arrival_id, position, sequence, size, priority, subscription_ids
        )
        SELECT
            queue_id, group_key, moment_us - (priority - 5) * 10000000, arrival_id, position, sequence, size,
            priority, subscription_ids
        FROM placed JOIN {schema}.staged_entries AS entry USING (part_id, place)
        WHERE entry.part_id = ANY (of_parts) AND entry.problem IS NULL
    ), refused AS (
        INSERT INTO {schema}.aside (
            entry_id, queue_id, group_key, disposition, reason, arrival_id, position, sequence, size, priority,
            subscription_ids
        )
        SELECT
            nextval('{schema}.entry_ids'), queue_id, group_key, 'invalid', entry.problem, arrival_id, position,
            sequence, size, priority, subscription_ids
        FROM placed JOIN {schema}.staged_entries AS entry USING (part_id, place)
        WHERE entry.part_id = ANY (of_parts) AND entry.problem IS NOT NULL
    ), nowhere AS (
        INSERT INTO {schema}.unrouted (arrival_id, position, problem)
        SELECT arrival_id, position, problem
        FROM placed JOIN {schema}.staged_messages AS message USING (part_id, place)
        WHERE message.part_id = ANY (of_parts) AND destinations = 0
    )
    SELECT count(*) INTO taken FROM placed;
    DELETE FROM {schema}.staged_entries WHERE part_id = ANY (of_parts);
    DELETE FROM {schema}.staged_message_parts WHERE part_id = ANY (of_parts);
    DELETE FROM {schema}.staged_messages WHERE part_id = ANY (of_parts);
    DELETE FROM {schema}.parts WHERE part_id = ANY (of_parts);
    RETURN taken;
END
$function$;
