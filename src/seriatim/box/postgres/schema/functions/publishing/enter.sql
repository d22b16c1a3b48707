-- Put messages of the spool into queues. The arrays up to `problems` have an item for each message, which stands at its
-- place (arrival_id, position); an arrival of 0: leave it out. The arrays `entry_…` have an item for each entry;
-- `entry_places` counts messages from 1. A message without entries is unrouted, unless it is the
-- reply to a request; `problems` says why it isn't what its
-- type says, and `entry_problems` why a queue sets it aside as invalid. A void of a queue without order is set aside, too.
--
-- `serials`: the order in which the messages were published, NULL: the spool tells. `stamped`: the stamp of their tickets,
-- NULL: there are none yet. `came`: when they arrived, NULL: their tickets tell. `numbered_queues`: those of the queues
-- that number their entries, which is done at once where there is a stamp, and else at the commit. `on_way`: messages may be on the way to a gate; their places there are looked up unless
-- `entry_gates`, `entry_origins` and `entry_numbers` give them. `entry_meanings`: see the column `meaning`; NULL: plain numbers.
-- is: generic plan
CREATE OR REPLACE FUNCTION {schema}.enter(
    on_way boolean, arrival_ids bigint[], positions bigint[], destinations integer[], problems text[],
    seen_from timestamptz, delayed_at timestamptz, entry_places bigint[], entry_queues integer[], entry_groups text[], entry_sequences bigint[],
    entry_sizes bigint[], entry_priorities integer[], entry_problems text[], entry_subscriptions text[],
    serials bigint[], stamped bigint, came bigint DEFAULT NULL, numbered_queues integer[] DEFAULT NULL,
    entry_gates integer[] DEFAULT NULL, entry_origins text[] DEFAULT NULL, entry_numbers bigint[] DEFAULT NULL, entry_meanings text[] DEFAULT NULL
) RETURNS void
AS $function$
DECLARE
    moment_us bigint := {schema}.now_us();
    numbered bigint[];
    ordinals bigint[];
    counted integer[];
BEGIN
    IF numbered_queues IS NOT NULL AND stamped IS NOT NULL THEN
        counted := {schema}.counting(numbered_queues);
    END IF;
    IF counted IS NOT NULL THEN
        numbered := ARRAY(
            SELECT entry.nth
            FROM unnest(entry_places, entry_queues, entry_problems)
                WITH ORDINALITY AS entry (place, queue_id, problem, nth)
            WHERE entry.queue_id = ANY (counted) AND entry.problem IS NULL AND arrival_ids[entry.place] > 0
            ORDER BY serials[entry.place], entry.nth
        );
        SELECT array_agg(given.ordinal ORDER BY entry.nth) INTO ordinals
        FROM generate_series(1, cardinality(entry_queues)) AS entry (nth)
        LEFT JOIN unnest(numbered, {schema}.give_places(
            ARRAY(SELECT entry_queues[one] FROM unnest(numbered) WITH ORDINALITY AS n (one, at) ORDER BY at),
            {schema}.items_at(entry_groups, numbered)
        )) AS given (nth, ordinal) USING (nth);
    END IF;
    INSERT INTO {schema}.entries (
        gate_id, origin_group, origin_number, status,
        queue_id, group_key, rank, arrival_id, position, sequence, size, meaning, priority, visible_at, delayed_at, subscription_ids,
        stamp, arrived_us, serial,
        ordinal
    )
    SELECT
        coalesce(entry.gate_id, way.gate_id), coalesce(entry.origin_group, way.origin_group),
        coalesce(entry.origin_number, way.origin_number),
        CASE WHEN coalesce(entry.gate_id, way.gate_id) = queue_id THEN 'placed' ELSE 'arrived' END,
        queue_id, group_key, moment_us + place - (priority - 5) * 10000000, arrival_ids[place], positions[place], sequence,
        size, meaning::bigint[], priority, seen_from, delayed_at, subscription_ids::integer[], stamped, came, coalesce(serials[place], (
            SELECT coalesce(stored.serial, stored.arrival_id + stored.position) FROM {schema}.spool AS stored
            WHERE stored.arrival_id = ANY (ARRAY[arrival_ids[entry.place]])
                AND stored.position = ANY (ARRAY[positions[entry.place]])
        )), ordinals[nth]
    FROM unnest(
        entry_places, entry_queues, entry_groups, entry_sequences, entry_sizes, entry_priorities, entry_problems,
        entry_subscriptions, entry_gates, entry_origins, entry_numbers, entry_meanings
    ) WITH ORDINALITY AS entry (
        place, queue_id, group_key, sequence, size, priority, problem, subscription_ids, gate_id, origin_group,
        origin_number, meaning, nth
    )
    LEFT JOIN LATERAL (
        SELECT known.* FROM {schema}.spool AS stored
        CROSS JOIN LATERAL {schema}.place_at_gate(entry.queue_id, stored.context) AS known
        WHERE on_way AND entry_gates IS NULL AND stored.arrival_id = ANY (ARRAY[arrival_ids[entry.place]])
            AND stored.position = ANY (ARRAY[positions[entry.place]])
        OFFSET 0 -- so that nothing is looked up without messages on the way
    ) AS way ON TRUE
    WHERE problem IS NULL AND arrival_ids[place] > 0 AND NOT {is_loose_void(group_key, meaning::bigint[])};
    IF numbered_queues IS NOT NULL AND stamped IS NULL THEN
        PERFORM {schema}.number_at_commit(numbered_queues, arrival_ids);
    ELSIF numbered_queues IS NOT NULL AND (counted @> numbered_queues) IS NOT TRUE THEN
        PERFORM {schema}.number_sequences(
            ARRAY(SELECT unnest(numbered_queues) EXCEPT SELECT unnest(counted)), arrival_ids
        );
    END IF;
    IF cardinality(array_remove(entry_problems, NULL)) > 0 OR (entry_meanings IS NOT NULL AND '' = ANY (entry_groups)) THEN
        INSERT INTO {schema}.aside (
            entry_id, queue_id, group_key, disposition, reason, arrival_id, position, sequence, size, meaning, priority,
            subscription_ids
        )
        SELECT
            nextval('{schema}.entry_ids'), queue_id, group_key, CASE WHEN problem IS NULL THEN 'void' ELSE 'invalid' END,
            coalesce(problem, {LEAVES_NOTHING}), arrival_ids[place], positions[place], sequence, size, meaning::bigint[],
            priority, subscription_ids::integer[]
        FROM unnest(
            entry_places, entry_queues, entry_groups, entry_sequences, entry_sizes, entry_priorities, entry_problems,
            entry_subscriptions, entry_meanings
        ) AS entry (place, queue_id, group_key, sequence, size, priority, problem, subscription_ids, meaning)
        WHERE (problem IS NOT NULL OR {is_loose_void(group_key, meaning::bigint[])}) AND arrival_ids[place] > 0;
    END IF;
    IF EXISTS (SELECT FROM {schema}.open_requests) THEN
        PERFORM {schema}.keep_replies(arrival_ids, positions, problems);
    END IF;
    IF 0 = ANY (destinations) THEN
        INSERT INTO {schema}.unrouted (arrival_id, position, problem)
        SELECT arrival_id, position, problem
        FROM unnest(arrival_ids, positions, destinations, problems) AS message (arrival_id, position, queues, problem)
        WHERE queues = 0 AND arrival_id > 0 AND NOT EXISTS (
            SELECT FROM {schema}.replies AS kept
            WHERE kept.arrival_id = ANY (ARRAY[message.arrival_id]) AND kept.position = ANY (ARRAY[message.position])
        );
    END IF;
END
$function$;
