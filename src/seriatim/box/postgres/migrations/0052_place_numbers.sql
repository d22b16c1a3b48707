-- Places of a queue that is unordered and has a gate: it counts its messages by group, as each comes in.

-- Runs of `count` numbers of a group from `first` on. Rows are only added, by `give_places` alone, which reads the group under
-- its lock. The newest of a group says what is next.
CREATE TABLE {schema}.place_runs (
    queue_id integer NOT NULL,
    group_key text COLLATE "C" NOT NULL,
    first {schema}.one_or_more NOT NULL,
    count {schema}.one_or_more NOT NULL,
    PRIMARY KEY (queue_id, group_key, first)
);

-- What a transaction numbers at its commit besides its arrivals: a row with the count 0. `numbered_queues`: the queues whose entries
-- of the arrivals `entered` get their places.
ALTER TABLE {schema}.arrivals ALTER COLUMN count TYPE {schema}.zero_or_more;
ALTER TABLE {schema}.arrivals ADD COLUMN numbered_queues integer[], ADD COLUMN entered bigint[];

-- The queues among these that number their entries by group; NULL: none.
CREATE FUNCTION {schema}.numbering(of_queues integer[]) RETURNS integer[]
LANGUAGE plpgsql STABLE
SET enable_seqscan = off
AS $function$
BEGIN
    RETURN (
        SELECT array_agg(known.queue_id) FROM {schema}.queues AS known
        WHERE known.queue_id = ANY (of_queues) AND known.definition #>> '{{policy,name}}' = 'unordered'
            AND known.definition ->> 'gate' IS NOT NULL
    );
END
$function$;

-- The last place number that was given in a group, as far as it is committed; 0: none. Of an unordered queue its newest run tells,
-- of another one its group.
CREATE FUNCTION {schema}.place_numbers_given(of_queue integer, of_group text) RETURNS bigint
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET plan_cache_mode = force_generic_plan
AS $function$
BEGIN
    RETURN coalesce(
        (
            SELECT known.ordinal FROM {schema}.known_groups AS known
            WHERE known.queue_id = of_queue AND known.group_key = of_group
        ), (
            SELECT run.first + run.count - 1 FROM {schema}.place_runs AS run
            WHERE run.queue_id = of_queue AND run.group_key = of_group ORDER BY run.first DESC LIMIT 1
        ), 0
    );
END
$function$;

-- The next numbers of the groups of entries, one for each, in the order in which they are given here. Until the transaction
-- ends nobody else gets a number of these groups. The caller has the locks of all its locations.
CREATE FUNCTION {schema}.give_places(of_queues integer[], of_groups text[]) RETURNS bigint[]
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    one record;
    own text;
    held boolean;
    given bigint[];
BEGIN
    -- In one order for all, by the bytes of the keys, so that two never wait for each other crosswise. Who needs many groups takes
    -- the queue alone: the server has room for so many locks only.
    FOR one IN
        SELECT asked.queue_id, array_agg(asked.group_key ORDER BY asked.group_key) AS keys
        FROM (
            SELECT DISTINCT entry.queue_id, entry.group_key COLLATE "C" AS group_key
            FROM unnest(of_queues, of_groups) AS entry (queue_id, group_key)
        ) AS asked
        GROUP BY asked.queue_id ORDER BY asked.queue_id
    LOOP
        IF cardinality(one.keys) > 64 THEN
            held := {schema}.take_lock(
                {schema}.lock_of('places ' || one.queue_id), format('the places of queue %s', one.queue_id)
            );
            CONTINUE;
        END IF;
        held := pg_try_advisory_xact_lock_shared({schema}.lock_of('places ' || one.queue_id)) OR {schema}.wait_for_lock(
            {schema}.lock_of('places ' || one.queue_id), TRUE, format('the places of queue %s', one.queue_id)
        );
        FOREACH own IN ARRAY one.keys LOOP
            held := {schema}.take_lock(
                {schema}.lock_of(format('places %s %s', one.queue_id, own)),
                format('the places of the group "%s" of queue %s', own, one.queue_id)
            );
        END LOOP;
    END LOOP;
    -- A statement of its own: its snapshot is younger than the locks.
    WITH asked AS MATERIALIZED (
        SELECT entry.queue_id, entry.group_key, entry.nth,
            row_number() OVER (PARTITION BY entry.queue_id, entry.group_key ORDER BY entry.nth) AS place
        FROM unnest(of_queues, of_groups) WITH ORDINALITY AS entry (queue_id, group_key, nth)
    ), run AS (
        INSERT INTO {schema}.place_runs (queue_id, group_key, first, count)
        SELECT own.queue_id, own.group_key, coalesce((
            SELECT newest.first + newest.count FROM {schema}.place_runs AS newest
            WHERE newest.queue_id = own.queue_id AND newest.group_key = own.group_key ORDER BY newest.first DESC LIMIT 1
        ), 1), own.many
        FROM (
            SELECT queue_id, group_key COLLATE "C" AS group_key, count(*) AS many FROM asked GROUP BY 1, 2
        ) AS own
        RETURNING queue_id, group_key, first
    )
    SELECT array_agg(run.first + asked.place - 1 ORDER BY asked.nth) INTO given
    FROM asked JOIN run ON run.queue_id = asked.queue_id AND run.group_key = asked.group_key COLLATE "C";
    RETURN given;
END
$function$;

-- Entries of arrivals get their places in these queues, in the order of their arrival.
CREATE FUNCTION {schema}.number_places(of_queues integer[], of_arrivals bigint[]) RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    ids bigint[];
    queues integer[];
    keys text[];
    ordinals bigint[];
BEGIN
    SELECT
        array_agg(entry.entry_id ORDER BY run.stamp, entry.position, entry.entry_id),
        array_agg(entry.queue_id ORDER BY run.stamp, entry.position, entry.entry_id),
        array_agg(entry.group_key ORDER BY run.stamp, entry.position, entry.entry_id)
    INTO ids, queues, keys
    FROM (SELECT DISTINCT unnest(of_arrivals) AS arrival_id) AS one
    JOIN {schema}.entries AS entry ON entry.arrival_id = ANY (ARRAY[one.arrival_id])
    JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[one.arrival_id])
    WHERE (entry.queue_id = ANY (of_queues) AND entry.ordinal IS NULL) IS TRUE;
    IF ids IS NULL THEN
        RETURN;
    END IF;
    ordinals := {schema}.give_places(queues, keys);
    UPDATE {schema}.entries AS entry SET ordinal = given.ordinal
    FROM unnest(ids, ordinals) AS given (entry_id, ordinal)
    WHERE entry.entry_id = ANY (ARRAY[given.entry_id]);
END
$function$;

-- At its commit the transaction numbers what it has put into these queues, of these arrivals; NULL: of all of its own.
CREATE FUNCTION {schema}.number_at_commit(of_queues integer[], of_arrivals bigint[]) RETURNS void
LANGUAGE plpgsql
AS $function$
BEGIN
    INSERT INTO {schema}.arrivals (location, count, numbered_queues, entered) VALUES ('', 0, of_queues, coalesce(
        of_arrivals,
        ARRAY(SELECT arrival_id FROM {schema}.arrivals WHERE transaction = pg_current_xact_id() AND count > 0)
    ));
END
$function$;

-- The next messages of a queue without order, each locked by itself. `ordinal`, `group_key`: where its messages are counted.
DROP FUNCTION {schema}.take_unordered(integer, integer, bigint);
CREATE FUNCTION {schema}.take_unordered(of_queue integer, at_most integer, from_rank bigint)
RETURNS TABLE (
    version bigint, entry_id bigint, message_id text, type text, content_type text, context text, property_types jsonb,
    body bytea, received_at timestamptz, location text, epoch bigint, number bigint, attempt integer, priority smallint,
    subscription_ids integer[], parts integer, group_key text, ordinal bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $function$
#variable_conflict use_column
DECLARE
    least_rank bigint := from_rank;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    LOOP
        RETURN QUERY
        SELECT
            (SELECT max(version) FROM {schema}.changes) AS version,
            entry.entry_id,
            stored.message_id,
            stored.type,
            stored.content_type,
            stored.context::text,
            stored.property_types,
            stored.body,
            stored.received_at,
            run.location,
            run.epoch + (run.number - 1 + stored.position) / place.last_number AS epoch,
            (run.number - 1 + stored.position) % place.last_number + 1 AS number,
            entry.attempt,
            entry.priority::smallint,
            entry.subscription_ids,
            stored.parts::integer,
            entry.group_key,
            entry.ordinal
        FROM (
            SELECT * FROM {schema}.entries
            WHERE queue_id = of_queue AND status = 'arrived' AND rank >= least_rank
                AND (visible_at IS NULL OR visible_at <= clock_timestamp())
                AND (subscription_ids <> '{{}}' AND subscription_ids <@ (
                    SELECT array_agg(subscription_id) FROM {schema}.known_subscriptions
                    WHERE queue_id = of_queue AND state <> 'started'
                )) IS NOT TRUE
            ORDER BY rank LIMIT at_most
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS entry
        JOIN {schema}.spool AS stored
            ON stored.arrival_id = ANY (ARRAY[entry.arrival_id]) AND stored.position = ANY (ARRAY[entry.position])
        JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[entry.arrival_id])
        JOIN {schema}.locations AS place ON place.location = run.location
        ORDER BY entry.rank, entry.entry_id;
        EXIT WHEN FOUND OR least_rank = -9223372036854775808;
        least_rank := -9223372036854775808;
    END LOOP;
END
$function$;

-- These functions number what they put into such queues; the rest of each stays as it is. What a publisher takes in by itself has its
-- tickets already, and gets its places with them. `numbered_queues`: see `numbering`; NULL, as nearly always: none.
DO $all$
DECLARE
    one record;
    known oid;
    before text;
    now_is text;
BEGIN
    FOR one IN
        SELECT * FROM (VALUES
            ('number_arrivals', FALSE, $q$    messages bigint := 0;
$q$, $q$    messages bigint := 0;
    numbered integer[];
    entries_of bigint[];
$q$),
            (
                'number_arrivals', FALSE, $q$queue_ids, publisher, permitted$q$,
                $q$queue_ids, publisher, permitted, numbered_queues, entered$q$
            ),
            ('number_arrivals', FALSE, $q$    LOOP
        PERFORM$q$, $q$    LOOP
        IF arrival.count = 0 THEN
            numbered := numbered || arrival.numbered_queues;
            entries_of := entries_of || arrival.entered;
            CONTINUE;
        END IF;
        PERFORM$q$),
            ('number_arrivals', FALSE, $q$    END LOOP;
$q$, $q$    END LOOP;
    IF numbered IS NOT NULL THEN
        PERFORM {schema}.number_places(numbered, entries_of);
    END IF;
$q$),
            ('number_left', FALSE, $q$publisher, permitted)$q$, $q$publisher, permitted, numbered_queues, entered)$q$),
            (
                'number_left', FALSE, $q$publisher, permitted FROM gone$q$,
                $q$publisher, permitted, numbered_queues, entered FROM gone$q$
            ),
            (
                'enter', TRUE, $q$times bigint[] DEFAULT NULL::bigint[])$q$,
                $q$times bigint[] DEFAULT NULL::bigint[], numbered_queues integer[] DEFAULT NULL::integer[])$q$
            ),
            ('enter', FALSE, $q$    moment_us bigint := {schema}.now_us();
BEGIN
$q$, $q$    moment_us bigint := {schema}.now_us();
    numbered bigint[];
    ordinals bigint[];
BEGIN
    IF numbered_queues IS NOT NULL AND stamps IS NOT NULL THEN
        numbered := ARRAY(
            SELECT entry.nth
            FROM unnest(entry_places, entry_queues, entry_problems)
                WITH ORDINALITY AS entry (place, queue_id, problem, nth)
            WHERE entry.queue_id = ANY (numbered_queues) AND entry.problem IS NULL AND arrival_ids[entry.place] > 0
            ORDER BY stamps[entry.place], positions[entry.place], entry.nth
        );
        SELECT array_agg(given.ordinal ORDER BY entry.nth) INTO ordinals
        FROM generate_series(1, cardinality(entry_queues)) AS entry (nth)
        LEFT JOIN unnest(numbered, {schema}.give_places(
            ARRAY(SELECT entry_queues[one] FROM unnest(numbered) WITH ORDINALITY AS n (one, at) ORDER BY at),
            ARRAY(SELECT entry_groups[one] FROM unnest(numbered) WITH ORDINALITY AS n (one, at) ORDER BY at)
        )) AS given (nth, ordinal) USING (nth);
    END IF;
$q$),
            ('enter', FALSE, $q$    IF cardinality(array_remove(entry_problems$q$, $q$    IF numbered_queues IS NOT NULL AND stamps IS NULL THEN
        PERFORM {schema}.number_at_commit(numbered_queues, arrival_ids);
    END IF;
    IF cardinality(array_remove(entry_problems$q$),
            ('enter', FALSE, $q$subscription_ids, stamp, arrived_us
    )
$q$, $q$subscription_ids, stamp, arrived_us,
        ordinal
    )
$q$),
            ('enter', FALSE, $q$stamps[place], times[place]
    FROM unnest(
        entry_places, entry_queues, entry_groups, entry_sequences, entry_sizes, entry_priorities, entry_problems,
        entry_subscriptions
    ) AS entry (place, queue_id, group_key, sequence, size, priority, problem, subscription_ids)
$q$, $q$stamps[place], times[place], ordinals[nth]
    FROM unnest(
        entry_places, entry_queues, entry_groups, entry_sequences, entry_sizes, entry_priorities, entry_problems,
        entry_subscriptions
    ) WITH ORDINALITY AS entry (place, queue_id, group_key, sequence, size, priority, problem, subscription_ids, nth)
$q$),
            (
                'take_in', TRUE, $q$flushed boolean)$q$,
                $q$flushed boolean, numbered_queues integer[] DEFAULT NULL::integer[])$q$
            ),
            ('take_in', FALSE, $q$        space := {schema}.space_of_role({schema}.caller());
$q$, $q$        space := {schema}.space_of_role({schema}.caller());
        numbered_queues := {schema}.numbering(entry_queues);
$q$),
            ('take_in', FALSE, $q$entry_subscriptions, stamps, times$q$, $q$entry_subscriptions, stamps, times, numbered_queues$q$),
            ('take_in_unique', TRUE, $q$flushed boolean)$q$, $q$flushed boolean, numbered_queues integer[] DEFAULT NULL::integer[])$q$),
            ('take_in_unique', FALSE, $q$        FALSE, flushed
$q$, $q$        FALSE, flushed, numbered_queues
$q$),
            (
                'route', TRUE, $q$entry_subscriptions text[])$q$,
                $q$entry_subscriptions text[], numbered_queues integer[] DEFAULT NULL::integer[])$q$
            ),
            ('route', FALSE, $q$    IF NOT {schema}.is_owner() THEN
$q$, $q$    IF NOT {schema}.is_owner() THEN
        numbered_queues := {schema}.numbering(entry_queues);
$q$),
            ('route', FALSE, $q$        entry_subscriptions
    );
    PERFORM$q$, $q$        entry_subscriptions, numbered_queues
    );
    PERFORM$q$),
            (
                'route_again', TRUE, $q$entry_subscriptions text[])$q$,
                $q$entry_subscriptions text[], numbered_queues integer[] DEFAULT NULL::integer[])$q$
            ),
            ('route_again', FALSE, $q$entry_subscriptions, NULL, times$q$, $q$entry_subscriptions, NULL, times, numbered_queues$q$),
            (
                'enter_again', TRUE, $q$entry_subscriptions text[])$q$,
                $q$entry_subscriptions text[], numbered_queues integer[] DEFAULT NULL::integer[])$q$
            ),
            (
                'enter_again', FALSE, $q$array_fill({schema}.now_us(), ARRAY[cardinality(arrival_ids)])$q$,
                $q$array_fill({schema}.now_us(), ARRAY[cardinality(arrival_ids)]), numbered_queues$q$
            ),
            ('requeue', FALSE, $q$    RETURN moved.messages;
$q$, $q$    IF NOT FOUND AND of_group <> '' AND {schema}.numbering(ARRAY[of_queue]) IS NOT NULL THEN
        PERFORM {schema}.number_at_commit(ARRAY[of_queue], ARRAY(
            SELECT entry.arrival_id FROM {schema}.entries AS entry WHERE entry.entry_id = ANY (of_entries)
        ));
    END IF;
    RETURN moved.messages;
$q$),
            ('merge_parts', FALSE, $q$    taken bigint;
$q$, $q$    taken bigint;
    numbered_queues integer[];
$q$),
            ('merge_parts', FALSE, $q$ INTO taken FROM placed;
$q$, $q$ INTO taken FROM placed;
    numbered_queues := {schema}.numbering(ARRAY(
        SELECT unnest(queue_ids) FROM {schema}.arrivals WHERE transaction = pg_current_xact_id()
    ));
    IF numbered_queues IS NOT NULL THEN
        PERFORM {schema}.number_at_commit(numbered_queues, NULL);
    END IF;
$q$)
        ) AS wanted (name, anew, old, new)
    LOOP
        SELECT fn.oid INTO STRICT known FROM pg_proc AS fn
        WHERE fn.pronamespace = '{schema}'::regnamespace AND fn.proname = one.name;
        before := pg_get_functiondef(known);
        IF (length(before) - length(replace(before, one.old, ''))) <> length(one.old) THEN
            RAISE EXCEPTION 'not once in %: %', one.name, one.old;
        END IF;
        now_is := replace(before, one.old, one.new);
        IF one.anew THEN -- with other arguments
            EXECUTE format('DROP FUNCTION %s', known::regprocedure);
        END IF;
        EXECUTE now_is;
    END LOOP;
END
$all$;
