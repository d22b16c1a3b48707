-- Unique keys: of the messages with one key at most one waits in a queue.

-- The last message that a queue took with a key, in an id space, where keys are compared as message ids are. It is only
-- looked up here: whether it still waits its entry tells. So whoever completes a message changes nothing here, and no
-- publisher waits for a transaction that has one in hand; two publishers of one key wait for each other, as for a message
-- id. `arrival_id` and `position` are NULL within the transaction that takes it.
CREATE TABLE {schema}.unique_keys (
    queue_id integer NOT NULL,
    id_space text COLLATE "C" NOT NULL,
    unique_key text COLLATE "C" NOT NULL,
    message_id text NOT NULL,
    arrival_id bigint,
    position bigint,
    claimed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (queue_id, id_space, unique_key)
) WITH (fillfactor = 80);
CREATE INDEX unique_keys_by_age ON {schema}.unique_keys (claimed_at);

-- The lock of an entry with a key that a transaction has in hand. It is only asked who has it.
CREATE FUNCTION {schema}.in_hand_lock(of_entry bigint) RETURNS bigint
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN hashtextextended('in hand ' || of_entry, '{schema}'::regnamespace::oid::bigint);

-- The same for all entries of a group; '' is that of a queue without groups.
CREATE FUNCTION {schema}.group_in_hand_lock(of_queue integer, of_group text) RETURNS bigint
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN hashtextextended('in hand ' || of_group, ('{schema}'::regnamespace::oid::bigint << 32) | of_queue);

-- The caller has these entries in hand, until its transaction ends: they don't wait any more, for their keys. The server has
-- room for so many locks; where there are more entries all of their group count as in hand, and one too many comes in.
CREATE FUNCTION {schema}.begin_unique(of_queue integer, of_group text, of_entries bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit_entries(of_queue, of_entries);
    IF cardinality(of_entries) > 64 THEN
        PERFORM pg_advisory_xact_lock_shared({schema}.group_in_hand_lock(of_queue, coalesce(of_group, '')));
    ELSE
        PERFORM pg_advisory_xact_lock_shared({schema}.in_hand_lock(one)) FROM unnest(of_entries) AS one;
    END IF;
END
$function$;

-- For each entry with a key the id of the message that waits with it in the queue; NULL: none does. A message waits until a
-- transaction or a lease has it in hand, and again when it is put back. Its settings, and those of `claim_keys`, are the
-- caller's.
CREATE FUNCTION {schema}.waiting_with(of_queues integer[], keys text[], of_space text) RETURNS text[]
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    found text[];
BEGIN
    WITH asked AS MATERIALIZED (
        SELECT given.place, given.queue_id, known.message_id, entry.entry_id, entry.group_key
        FROM unnest(of_queues, keys) WITH ORDINALITY AS given (queue_id, unique_key, place)
        -- One by one, whatever the server thinks of the tables: see `turn_entries`.
        LEFT JOIN LATERAL (
            SELECT * FROM {schema}.unique_keys AS one
            WHERE one.queue_id = given.queue_id AND one.id_space = of_space AND one.unique_key = given.unique_key
            OFFSET 0
        ) AS known ON TRUE
        LEFT JOIN LATERAL (
            SELECT one.entry_id, one.group_key FROM {schema}.entries AS one
            WHERE one.arrival_id = known.arrival_id AND one.position = known.position
                -- Not by an index of the queue.
                AND (one.queue_id = known.queue_id AND one.status IN ('arrived', 'held', 'queued')) IS TRUE
            OFFSET 0
        ) AS entry ON TRUE
    ), in_hand AS MATERIALIZED (
        SELECT (held.classid::bigint << 32) | held.objid::bigint AS key
        FROM pg_locks AS held
        WHERE EXISTS (SELECT FROM asked WHERE entry_id IS NOT NULL)
            AND held.locktype = 'advisory' AND held.objsubid = 1 AND held.granted AND held.mode = 'ShareLock'
            AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    )
    SELECT array_agg(
        CASE WHEN asked.entry_id IS NOT NULL
            AND NOT EXISTS (
                SELECT FROM in_hand
                WHERE in_hand.key IN (
                    {schema}.in_hand_lock(asked.entry_id), {schema}.group_in_hand_lock(asked.queue_id, asked.group_key)
                )
            )
            AND NOT EXISTS (
                SELECT FROM {schema}.leases AS lease
                WHERE lease.queue_id = asked.queue_id AND asked.entry_id = ANY (lease.entry_ids)
            )
        THEN asked.message_id END ORDER BY asked.place
    ) INTO found
    FROM asked;
    RETURN found;
END
$function$;

-- Take keys for entries of messages that are about to come in. For each entry: NULL, it may come in; or the id of the message
-- that waits in its place, which may be an earlier one of these. A key is locked until the transaction ends where it is
-- taken, in one order for all publishers, and not where one waits already.
CREATE FUNCTION {schema}.claim_keys(of_queues integer[], keys text[], ids text[], of_space text) RETURNS text[]
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    waiting text[] := {schema}.waiting_with(of_queues, keys, of_space);
BEGIN
    IF NOT EXISTS (
        SELECT FROM unnest(keys, waiting) AS given (unique_key, message_id)
        WHERE given.unique_key IS NOT NULL AND given.message_id IS NULL
    ) THEN
        RETURN waiting;
    END IF;
    INSERT INTO {schema}.unique_keys AS known (queue_id, id_space, unique_key, message_id)
    SELECT DISTINCT ON (given.queue_id, given.unique_key) given.queue_id, of_space, given.unique_key, given.message_id
    FROM unnest(of_queues, keys, ids, waiting) WITH ORDINALITY
        AS given (queue_id, unique_key, message_id, waits, place)
    WHERE given.unique_key IS NOT NULL AND given.waits IS NULL
    ORDER BY given.queue_id, given.unique_key, given.place
    ON CONFLICT (queue_id, id_space, unique_key) DO UPDATE SET claimed_at = now();
    -- Whoever had one of them has committed by now: this looks anew.
    waiting := {schema}.waiting_with(of_queues, keys, of_space);
    WITH first AS (
        SELECT DISTINCT ON (given.queue_id, given.unique_key) given.queue_id, given.unique_key, given.message_id, given.place
        FROM unnest(of_queues, keys, ids, waiting) WITH ORDINALITY
            AS given (queue_id, unique_key, message_id, waits, place)
        WHERE given.unique_key IS NOT NULL AND given.waits IS NULL
        ORDER BY given.queue_id, given.unique_key, given.place
    ), taken AS (
        UPDATE {schema}.unique_keys AS known SET message_id = first.message_id, arrival_id = NULL, position = NULL
        FROM first
        WHERE known.queue_id = ANY (ARRAY[first.queue_id]) AND known.id_space = of_space
            AND known.unique_key = ANY (ARRAY[first.unique_key])
    )
    SELECT array_agg(coalesce(given.waits, CASE WHEN given.place > first.place THEN first.message_id END) ORDER BY given.place)
    INTO waiting
    FROM unnest(of_queues, keys, waiting) WITH ORDINALITY AS given (queue_id, unique_key, waits, place)
    LEFT JOIN first USING (queue_id, unique_key);
    RETURN waiting;
END
$function$;

-- As `take_in`, where messages have unique keys: `entry_keys` has an item for each entry, NULL: none. An entry isn't made
-- where a message with its key waits in the queue, and a message isn't taken in of which that is so for every entry. Answers
-- with an item for each message: NULL, it is taken in; '', it was published before; or the id of the message that waits.
-- NULL, and nothing is done, if the definitions have changed. `by_itself` changes nothing: it is numbered at the commit.
CREATE FUNCTION {schema}.take_in_unique(
    known_version bigint, message_ids text[], types text[], locations text[], content_types text[],
    contexts text[], property_types text[], bodies bytea[], destinations integer[], problems text[],
    visible_at timestamptz, delay interval,
    entry_places bigint[], entry_queues integer[], entry_groups text[], entry_sequences bigint[],
    entry_sizes bigint[], entry_priorities integer[], entry_problems text[], entry_subscriptions text[],
    part_counts integer[], part_places bigint[], part_names text[], part_content_types text[], part_bodies bytea[],
    entry_keys text[], by_itself boolean, flushed boolean
) RETURNS text[]
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    many bigint := cardinality(message_ids);
    space text := {schema}.id_space();
    own_keys text[];
    waiting text[];
    answer text[];
    -- The places of the messages that come in, their new places by their old ones, and those of their entries.
    come bigint[];
    moved bigint[];
    entered bigint[];
    newest bigint;
    known bigint[];
BEGIN
    PERFORM {schema}.permit('publish', ARRAY[]::integer[]);
    IF (cardinality(entry_keys) = ALL (ARRAY[cardinality(entry_places), cardinality(entry_queues)])) IS NOT TRUE
        OR EXISTS (SELECT FROM unnest(entry_keys) AS one WHERE octet_length(one) NOT BETWEEN 1 AND 1024)
        OR EXISTS (SELECT FROM unnest(entry_places) AS one WHERE (one BETWEEN 1 AND many) IS NOT TRUE)
    THEN
        RAISE EXCEPTION 'there is a unique key for each entry, of 1 to 1024 bytes, or NULL' USING
            ERRCODE = 'invalid_parameter_value';
    END IF;
    IF known_version IS DISTINCT FROM {schema}.hold_definitions() THEN
        RETURN NULL;
    END IF;
    -- What was published before takes no key.
    own_keys := ARRAY(
        SELECT CASE WHEN given.unique_key IS NOT NULL AND NOT EXISTS (
            SELECT FROM {schema}.message_ids AS published
            WHERE published.message_id = ANY (ARRAY[message_ids[given.place]]) AND published.id_space = ANY (ARRAY[space])
        ) THEN given.unique_key END
        FROM unnest(entry_places, entry_keys) WITH ORDINALITY AS given (place, unique_key, nth) ORDER BY given.nth
    );
    waiting := {schema}.claim_keys(
        entry_queues, own_keys,
        ARRAY(SELECT message_ids[place] FROM unnest(entry_places) WITH ORDINALITY AS one (place, nth) ORDER BY nth), space
    );
    SELECT
        array_agg(CASE WHEN entry.entries > 0 AND entry.entries = entry.waits THEN entry.first END ORDER BY message.place),
        array_agg(message.place ORDER BY message.place)
            FILTER (WHERE entry.entries IS NULL OR entry.entries > entry.waits)
    INTO answer, come
    FROM generate_series(1, many) AS message (place)
    LEFT JOIN (
        SELECT given.place, count(*) AS entries, count(given.waits) AS waits,
            (array_agg(given.waits ORDER BY given.nth))[1] AS first
        FROM unnest(entry_places, waiting) WITH ORDINALITY AS given (place, waits, nth) GROUP BY given.place
    ) AS entry USING (place);
    IF come IS NULL THEN
        RETURN coalesce(answer, '{{}}');
    END IF;
    SELECT array_agg(one.nth ORDER BY message.place) INTO moved
    FROM generate_series(1, many) AS message (place)
    LEFT JOIN unnest(come) WITH ORDINALITY AS one (place, nth) USING (place);
    entered := ARRAY(
        SELECT given.nth FROM unnest(entry_places, waiting) WITH ORDINALITY AS given (place, waits, nth)
        WHERE given.waits IS NULL AND moved[given.place] IS NOT NULL ORDER BY given.nth
    );
    newest := coalesce((
        SELECT max(arrival_id) FROM {schema}.arrivals WHERE transaction = pg_current_xact_id_if_assigned()
    ), 0);
    known := {schema}.take_in(
        known_version,
        ARRAY(SELECT message_ids[one] FROM unnest(come) WITH ORDINALITY AS c (one, nth) ORDER BY nth),
        ARRAY(SELECT types[one] FROM unnest(come) WITH ORDINALITY AS c (one, nth) ORDER BY nth),
        ARRAY(SELECT locations[one] FROM unnest(come) WITH ORDINALITY AS c (one, nth) ORDER BY nth),
        ARRAY(SELECT content_types[one] FROM unnest(come) WITH ORDINALITY AS c (one, nth) ORDER BY nth),
        ARRAY(SELECT contexts[one] FROM unnest(come) WITH ORDINALITY AS c (one, nth) ORDER BY nth),
        ARRAY(SELECT property_types[one] FROM unnest(come) WITH ORDINALITY AS c (one, nth) ORDER BY nth),
        ARRAY(SELECT bodies[one] FROM unnest(come) WITH ORDINALITY AS c (one, nth) ORDER BY nth),
        ARRAY(
            SELECT coalesce(entry.queues, 0)::integer FROM unnest(come) WITH ORDINALITY AS c (one, nth)
            LEFT JOIN (
                SELECT entry_places[e] AS one, count(*) AS queues FROM unnest(entered) AS e GROUP BY entry_places[e]
            ) AS entry USING (one) ORDER BY nth
        ),
        ARRAY(SELECT problems[one] FROM unnest(come) WITH ORDINALITY AS c (one, nth) ORDER BY nth),
        visible_at, delay,
        ARRAY(SELECT moved[entry_places[one]] FROM unnest(entered) WITH ORDINALITY AS c (one, nth) ORDER BY nth),
        ARRAY(SELECT entry_queues[one] FROM unnest(entered) WITH ORDINALITY AS c (one, nth) ORDER BY nth),
        ARRAY(SELECT entry_groups[one] FROM unnest(entered) WITH ORDINALITY AS c (one, nth) ORDER BY nth),
        ARRAY(SELECT entry_sequences[one] FROM unnest(entered) WITH ORDINALITY AS c (one, nth) ORDER BY nth),
        ARRAY(SELECT entry_sizes[one] FROM unnest(entered) WITH ORDINALITY AS c (one, nth) ORDER BY nth),
        ARRAY(SELECT entry_priorities[one] FROM unnest(entered) WITH ORDINALITY AS c (one, nth) ORDER BY nth),
        ARRAY(SELECT entry_problems[one] FROM unnest(entered) WITH ORDINALITY AS c (one, nth) ORDER BY nth),
        ARRAY(SELECT entry_subscriptions[one] FROM unnest(entered) WITH ORDINALITY AS c (one, nth) ORDER BY nth),
        CASE WHEN part_counts IS NOT NULL THEN
            ARRAY(SELECT part_counts[one] FROM unnest(come) WITH ORDINALITY AS c (one, nth) ORDER BY nth) END,
        CASE WHEN part_counts IS NOT NULL THEN ARRAY(
            SELECT moved[place] FROM unnest(part_places) WITH ORDINALITY AS c (place, nth)
            WHERE moved[place] IS NOT NULL ORDER BY nth
        ) END,
        CASE WHEN part_counts IS NOT NULL THEN ARRAY(
            SELECT part_names[nth] FROM unnest(part_places) WITH ORDINALITY AS c (place, nth)
            WHERE moved[place] IS NOT NULL ORDER BY nth
        ) END,
        CASE WHEN part_counts IS NOT NULL THEN ARRAY(
            SELECT part_content_types[nth] FROM unnest(part_places) WITH ORDINALITY AS c (place, nth)
            WHERE moved[place] IS NOT NULL ORDER BY nth
        ) END,
        CASE WHEN part_counts IS NOT NULL THEN ARRAY(
            SELECT part_bodies[nth] FROM unnest(part_places) WITH ORDINALITY AS c (place, nth)
            WHERE moved[place] IS NOT NULL ORDER BY nth
        ) END,
        -- Numbered at the commit, though that follows at once: until then its arrivals tell which messages they are.
        FALSE, flushed
    );
    UPDATE {schema}.unique_keys AS taken SET arrival_id = stored.arrival_id, position = stored.position
    FROM {schema}.arrivals AS arrival
    JOIN {schema}.spool AS stored ON stored.arrival_id = ANY (ARRAY[arrival.arrival_id])
    JOIN (
        SELECT entry_queues[one] AS queue_id, own_keys[one] AS unique_key, message_ids[entry_places[one]] AS message_id
        FROM unnest(entered) AS one WHERE own_keys[one] IS NOT NULL
    ) AS mine USING (message_id)
    WHERE arrival.transaction = pg_current_xact_id() AND arrival.arrival_id > newest
        AND taken.queue_id = ANY (ARRAY[mine.queue_id]) AND taken.id_space = space
        AND taken.unique_key = ANY (ARRAY[mine.unique_key]);
    RETURN ARRAY(
        SELECT CASE WHEN moved[place] = ANY (known) THEN '' ELSE answer[place] END
        FROM generate_series(1, many) AS message (place) ORDER BY place
    );
END
$function$;

-- The same for messages that wait to be routed: for each of their entries NULL, it may be made; or the id of the message that
-- waits in its place. `entry_places` counts messages from 1.
CREATE FUNCTION {schema}.claim_routed(
    arrival_ids bigint[], positions bigint[], entry_places bigint[], entry_queues integer[], entry_keys text[]
) RETURNS text[]
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    own record;
    waiting text[] := array_fill(NULL::text, ARRAY[cardinality(entry_keys)]);
    its_waiting text[];
BEGIN
    PERFORM {schema}.permit('route', ARRAY[]::integer[]);
    IF (cardinality(entry_keys) = ALL (ARRAY[cardinality(entry_places), cardinality(entry_queues)])) IS NOT TRUE
        OR EXISTS (SELECT FROM unnest(entry_keys) AS one WHERE octet_length(one) NOT BETWEEN 1 AND 1024)
    THEN
        RAISE EXCEPTION 'there is a unique key for each entry, of 1 to 1024 bytes, or NULL' USING
            ERRCODE = 'invalid_parameter_value';
    END IF;
    FOR own IN
        SELECT stored.id_space, array_agg(given.nth ORDER BY given.nth) AS at,
            array_agg(given.queue_id ORDER BY given.nth) AS queue_ids,
            array_agg(given.unique_key ORDER BY given.nth) AS keys,
            array_agg(stored.message_id ORDER BY given.nth) AS ids,
            array_agg(stored.arrival_id ORDER BY given.nth) AS arrival_ids,
            array_agg(stored.position ORDER BY given.nth) AS positions
        FROM unnest(entry_places, entry_queues, entry_keys) WITH ORDINALITY AS given (place, queue_id, unique_key, nth)
        JOIN {schema}.to_route AS known
            ON known.arrival_id = ANY (ARRAY[claim_routed.arrival_ids[given.place]])
            AND known.position = ANY (ARRAY[claim_routed.positions[given.place]])
        JOIN {schema}.spool AS stored
            ON stored.arrival_id = ANY (ARRAY[known.arrival_id]) AND stored.position = ANY (ARRAY[known.position])
        WHERE given.unique_key IS NOT NULL
        GROUP BY stored.id_space ORDER BY stored.id_space
    LOOP
        its_waiting := {schema}.claim_keys(own.queue_ids, own.keys, own.ids, own.id_space);
        UPDATE {schema}.unique_keys AS taken SET arrival_id = mine.arrival_id, position = mine.position
        FROM unnest(own.queue_ids, own.keys, own.arrival_ids, own.positions, its_waiting)
            AS mine (queue_id, unique_key, arrival_id, position, waits)
        WHERE mine.waits IS NULL AND taken.queue_id = ANY (ARRAY[mine.queue_id]) AND taken.id_space = own.id_space
            AND taken.unique_key = ANY (ARRAY[mine.unique_key]);
        FOR nth IN 1 .. cardinality(own.at) LOOP
            waiting[own.at[nth]] := its_waiting[nth];
        END LOOP;
    END LOOP;
    RETURN waiting;
END
$function$;

-- Messages that wait to be routed, and in whose place others wait everywhere: they go, with their bodies.
CREATE FUNCTION {schema}.drop_routed(arrival_ids bigint[], positions bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('route', ARRAY[]::integer[]);
    -- The clean-up finds no reference to them, and takes the bodies.
    DELETE FROM {schema}.to_route AS known USING unnest(arrival_ids, positions) AS message (arrival_id, position)
    WHERE known.arrival_id = ANY (ARRAY[message.arrival_id]) AND known.position = ANY (ARRAY[message.position]);
END
$function$;
