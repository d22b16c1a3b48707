-- As `take_in`, where messages have unique keys: `entry_keys` has an item for each entry, NULL: none. No entry is made
-- where a message with its key waits in the queue, and a message all of whose entries are left out so isn't taken in.
-- Return an item for each message: NULL: it is taken in; '': it was published before; or the id of the message that
-- waits. Return NULL, and do nothing, if the definitions have changed. `by_itself` changes nothing: messages are
-- numbered at the commit.
-- is: definer, generic plan, no seqscan
CREATE OR REPLACE FUNCTION {schema}.take_in_unique(
    known_version bigint, message_ids text[], types text[], locations text[], content_types text[], contexts text[],
    property_types text[], bodies bytea[], destinations integer[], problems text[], visible_at timestamptz,
    delay interval, entry_places bigint[], entry_queues integer[], entry_groups text[], entry_sequences bigint[],
    entry_sizes bigint[], entry_priorities integer[], entry_problems text[], entry_subscriptions text[],
    part_counts integer[], part_places bigint[], part_names text[], part_content_types text[], part_bodies bytea[],
    entry_keys text[], on_way boolean, by_itself boolean, flushed boolean, numbered_queues integer[] DEFAULT NULL
) RETURNS text[]
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
            WHERE published.message_id = ANY (ARRAY[message_ids[given.place]])
                AND published.id_space = ANY (ARRAY[space])
        ) THEN given.unique_key END
        FROM unnest(entry_places, entry_keys) WITH ORDINALITY AS given (place, unique_key, nth) ORDER BY given.nth
    );
    waiting := {schema}.claim_keys(
        entry_queues, own_keys,
        ARRAY(SELECT message_ids[place] FROM unnest(entry_places) WITH ORDINALITY AS one (place, nth) ORDER BY nth),
        space
    );
    SELECT
        array_agg(
            CASE WHEN entry.entries > 0 AND entry.entries = entry.waits THEN entry.first END ORDER BY message.place
        ),
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
        RETURN coalesce(answer, '{}');
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
        on_way,
        -- Numbered at the commit, though that follows at once: until then its arrivals tell which messages they are.
        FALSE, flushed, numbered_queues
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
