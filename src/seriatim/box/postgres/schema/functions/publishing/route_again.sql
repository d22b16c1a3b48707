-- Put unrouted messages, or those that `publish` has left to be routed, into queues. Return FALSE, and do nothing, if
-- the definitions have changed since `known_version`. The arrays are those of `enter`. The caller has locked the rows
-- of `unrouted`, or has deleted those of `to_route`.
CREATE OR REPLACE FUNCTION {schema}.route_again(
    known_version bigint, arrival_ids bigint[], positions bigint[], new_contexts text[], new_property_types text[],
    destinations integer[], problems text[], entry_places bigint[], entry_queues integer[], entry_groups text[],
    entry_sequences bigint[], entry_sizes bigint[], entry_priorities integer[], entry_problems text[],
    entry_subscriptions text[], numbered_queues integer[] DEFAULT NULL, entry_meanings text[] DEFAULT NULL
) RETURNS boolean
AS $function$
DECLARE
    came bigint;
BEGIN
    IF known_version <> {schema}.hold_definitions() THEN
        RETURN FALSE;
    END IF;
    -- Unrouted messages arrive now; messages published through SQL came with their tickets.
    IF EXISTS (
        SELECT FROM {schema}.unrouted AS known WHERE known.arrival_id = ANY (route_again.arrival_ids)
    ) THEN
        came := {schema}.now_us();
    END IF;
    -- Messages that are unrouted again are entered there again, with their present reasons.
    DELETE FROM {schema}.unrouted AS known
    USING unnest(arrival_ids, positions) AS message (arrival_id, position)
    WHERE known.arrival_id = ANY (ARRAY[message.arrival_id]) AND known.position = ANY (ARRAY[message.position]);
    UPDATE {schema}.spool AS stored
    SET context = message.context::jsonb, property_types = message.property_types::jsonb, destinations = message.queues
    FROM unnest(arrival_ids, positions, new_contexts, new_property_types, route_again.destinations)
        AS message (arrival_id, position, context, property_types, queues)
    WHERE stored.arrival_id = ANY (ARRAY[message.arrival_id]) AND stored.position = ANY (ARRAY[message.position])
        AND message.queues > 0;
    PERFORM {schema}.enter(
        TRUE, arrival_ids, positions, destinations, problems, NULL, NULL, entry_places, entry_queues, entry_groups,
        entry_sequences, entry_sizes, entry_priorities, entry_problems, entry_subscriptions, NULL, NULL, came,
        numbered_queues, entry_meanings => entry_meanings
    );
    PERFORM {schema}.hide_again(arrival_ids, positions, entry_queues);
    RETURN TRUE;
END
$function$;
