-- `take_in` for messages with unique keys: `entry_keys` has an item for each entry, NULL: none. No entry is made if a
-- message with its key waits in the queue, and a message without any entry left isn't taken in. Return an item for
-- each message: NULL: it is taken in; '': it was published before; or the id of the message that waits. Return NULL,
-- and do nothing, if the definitions have changed. `by_itself` changes nothing: messages are numbered at the commit.
-- is: definer, generic plan, no seqscan
CREATE OR REPLACE FUNCTION {schema}.take_in_unique(
    known_version bigint, message_ids text[], types text[], locations text[], content_types text[], contexts text[],
    property_types text[], bodies bytea[], destinations integer[], problems text[], visible_at timestamptz,
    delay interval, entry_places bigint[], entry_queues integer[], entry_groups text[], entry_sequences bigint[],
    entry_sizes bigint[], entry_priorities integer[], entry_problems text[], entry_subscriptions text[],
    part_counts integer[], part_places bigint[], part_names text[], part_content_types text[], part_bodies bytea[],
    entry_keys text[], on_way boolean, by_itself boolean, flushed boolean, numbered_queues integer[] DEFAULT NULL,
    entry_meanings text[] DEFAULT NULL
) RETURNS text[]
AS $function$
DECLARE
    many bigint := cardinality(message_ids);
    space text := {schema}.id_space();
    -- Of each entry: the id of its message, its key, the message that waits in its place, and whether it comes in.
    entry_ids text[] := {schema}.items_at(message_ids, entry_places);
    own_keys text[];
    waiting text[];
    comes boolean[];
    -- Of each message whether it comes in, and its place among those; and the places of entries and parts among them.
    keeps boolean[];
    moved bigint[];
    part_comes boolean[];
    entries integer[];
    answer text[];
    newest bigint;
    known bigint[];
    stored record;
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
    -- Messages that were published before take no key.
    own_keys := ARRAY(
        SELECT CASE WHEN given.unique_key IS NOT NULL AND NOT EXISTS (
            SELECT FROM {schema}.message_ids AS published
            WHERE published.message_id = ANY (ARRAY[given.message_id]) AND published.id_space = ANY (ARRAY[space])
        ) THEN given.unique_key END
        FROM unnest(entry_ids, entry_keys) WITH ORDINALITY AS given (message_id, unique_key, nth) ORDER BY given.nth
    );
    waiting := {schema}.claim_keys(entry_queues, own_keys, entry_ids, space);
    SELECT one.comes, one.entries, one.waits INTO keeps, entries, answer
    FROM {schema}.keys_left(many, entry_places, waiting) AS one;
    IF (TRUE = ANY (keeps)) IS NOT TRUE THEN
        RETURN coalesce(answer, '{}');
    END IF;
    moved := ARRAY(
        SELECT CASE WHEN one.comes THEN sum(one.comes::integer) OVER (ORDER BY one.place) ELSE 0 END
        FROM unnest(keeps) WITH ORDINALITY AS one (comes, place) ORDER BY one.place
    );
    comes := ARRAY(
        SELECT given.waits IS NULL AND moved[given.place] > 0
        FROM unnest(entry_places, waiting) WITH ORDINALITY AS given (place, waits, nth) ORDER BY given.nth
    );
    IF part_counts IS NOT NULL THEN
        part_comes := ARRAY(
            SELECT moved[one.place] > 0 FROM unnest(part_places) WITH ORDINALITY AS one (place, nth) ORDER BY one.nth
        );
    END IF;
    newest := coalesce((
        SELECT max(arrival_id) FROM {schema}.arrivals WHERE transaction = pg_current_xact_id_if_assigned()
    ), 0);
    known := {schema}.take_in(
        known_version, {schema}.kept(message_ids, keeps), {schema}.kept(types, keeps), {schema}.kept(locations, keeps),
        {schema}.kept(content_types, keeps), {schema}.kept(contexts, keeps), {schema}.kept(property_types, keeps),
        {schema}.kept(bodies, keeps), {schema}.kept(entries, keeps), {schema}.kept(problems, keeps), visible_at, delay,
        ARRAY(
            SELECT moved[one.place] FROM unnest({schema}.kept(entry_places, comes)) WITH ORDINALITY AS one (place, nth)
            ORDER BY one.nth
        ),
        {schema}.kept(entry_queues, comes), {schema}.kept(entry_groups, comes), {schema}.kept(entry_sequences, comes),
        {schema}.kept(entry_sizes, comes), {schema}.kept(entry_priorities, comes), {schema}.kept(entry_problems, comes),
        {schema}.kept(entry_subscriptions, comes), CASE WHEN part_counts IS NOT NULL THEN {schema}.kept(part_counts, keeps) END,
        CASE WHEN part_counts IS NOT NULL THEN ARRAY(
            SELECT moved[one.place] FROM unnest({schema}.kept(part_places, part_comes)) WITH ORDINALITY AS one (place, nth)
            ORDER BY one.nth
        ) END,
        CASE WHEN part_counts IS NOT NULL THEN {schema}.kept(part_names, part_comes) END,
        CASE WHEN part_counts IS NOT NULL THEN {schema}.kept(part_content_types, part_comes) END,
        CASE WHEN part_counts IS NOT NULL THEN {schema}.kept(part_bodies, part_comes) END,
        on_way,
        -- Numbered at the commit, though that follows at once: until then its arrivals identify the messages.
        FALSE, flushed, numbered_queues,
        entry_meanings => CASE WHEN entry_meanings IS NOT NULL THEN {schema}.kept(entry_meanings, comes) END
    );
    SELECT array_agg(kept.message_id) AS ids, array_agg(kept.arrival_id) AS arrivals, array_agg(kept.position) AS positions
    INTO stored
    FROM {schema}.arrivals AS arrival
    JOIN {schema}.spool AS kept ON kept.arrival_id = ANY (ARRAY[arrival.arrival_id])
    WHERE arrival.transaction = pg_current_xact_id() AND arrival.arrival_id > newest;
    -- Each key is looked up, whatever size the server takes the table for: see `claim_keys`.
    UPDATE {schema}.unique_keys AS taken SET arrival_id = mine.arrival_id, position = mine.position
    FROM (
        SELECT known.at, given.arrival_id, given.position
        FROM {schema}.keys_stored(
            {schema}.kept(entry_queues, comes), {schema}.kept(own_keys, comes), {schema}.kept(entry_ids, comes),
            stored.ids, stored.arrivals, stored.positions
        ) AS given
        CROSS JOIN LATERAL (
            SELECT one.ctid AS at FROM {schema}.unique_keys AS one
            WHERE one.queue_id = given.queue_id AND one.id_space = space AND one.unique_key = given.unique_key OFFSET 0
        ) AS known
    ) AS mine
    WHERE taken.ctid = mine.at;
    RETURN ARRAY(
        SELECT CASE WHEN one.place = ANY (known) THEN '' ELSE one.waits END
        FROM unnest(moved, answer) WITH ORDINALITY AS one (place, waits, nth) ORDER BY one.nth
    );
END
$function$;
