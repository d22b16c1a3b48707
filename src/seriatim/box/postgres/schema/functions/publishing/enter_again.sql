-- Put messages into a queue that has set them aside as invalid: those that have a destination now; the others stay.
-- Return FALSE, and do nothing, if the definitions have changed since `known_version`. The arrays are those of `enter`;
-- `entry_ids` are the numbers that the messages have among what was set aside. The caller has locked these rows of
-- `aside`.
CREATE OR REPLACE FUNCTION {schema}.enter_again(
    known_version bigint, entry_ids bigint[], arrival_ids bigint[], positions bigint[], new_contexts text[],
    new_property_types text[], destinations integer[], entry_places bigint[], entry_queues integer[],
    entry_groups text[], entry_sequences bigint[], entry_sizes bigint[], entry_priorities integer[],
    entry_problems text[], entry_subscriptions text[], numbered_queues integer[] DEFAULT NULL, entry_meanings text[] DEFAULT NULL
) RETURNS boolean
AS $function$
BEGIN
    IF known_version <> {schema}.hold_definitions() THEN
        RETURN FALSE;
    END IF;
    DELETE FROM {schema}.aside AS known
    USING unnest(entry_ids, enter_again.destinations) AS message (entry_id, queues)
    WHERE known.entry_id = ANY (ARRAY[message.entry_id]) AND message.queues > 0;
    -- If another queue has the message, it keeps its form there.
    UPDATE {schema}.spool AS stored
    SET context = message.context::jsonb, property_types = message.property_types::jsonb
    FROM unnest(arrival_ids, positions, new_contexts, new_property_types, enter_again.destinations)
        AS message (arrival_id, position, context, property_types, queues)
    WHERE stored.arrival_id = ANY (ARRAY[message.arrival_id]) AND stored.position = ANY (ARRAY[message.position])
        AND message.queues > 0 AND stored.destinations = 1;
    PERFORM {schema}.enter(
        TRUE, arrival_ids, positions, array_replace(enter_again.destinations, 0, 1), NULL, NULL, NULL, entry_places,
        entry_queues,
        entry_groups, entry_sequences, entry_sizes, entry_priorities, entry_problems, entry_subscriptions, NULL,
        NULL, {schema}.now_us(), numbered_queues, entry_meanings => entry_meanings
    );
    PERFORM {schema}.hide_again(arrival_ids, positions, entry_queues);
    RETURN TRUE;
END
$function$;
