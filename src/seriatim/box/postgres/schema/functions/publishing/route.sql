-- Put messages that wait to be routed into queues, and call receivers that wait for them there. Return FALSE, and do
-- nothing, if the definitions have changed since `known_version`. The arrays are those of `enter`; those of a role that
-- isn't the owner are checked. The caller has the lock of `pending`.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.route(
    known_version bigint, arrival_ids bigint[], positions bigint[], contexts text[], property_types text[],
    destinations integer[], problems text[], entry_places bigint[], entry_queues integer[], entry_groups text[],
    entry_sequences bigint[], entry_sizes bigint[], entry_priorities integer[], entry_problems text[],
    entry_subscriptions text[], numbered_queues integer[] DEFAULT NULL, entry_meanings text[] DEFAULT NULL
) RETURNS boolean
AS $function$
DECLARE
    gone bigint;
    wrong text;
BEGIN
    PERFORM {schema}.permit('route', ARRAY[]::integer[]);
    IF NOT {schema}.is_owner() THEN
        numbered_queues := {schema}.numbering(entry_queues);
        wrong := {schema}.wrong_entries(
            destinations, entry_places, entry_queues, entry_groups, entry_sequences, entry_sizes, entry_priorities,
            entry_problems, entry_subscriptions
        );
        IF (cardinality(arrival_ids) = ALL (ARRAY[
            cardinality(positions), cardinality(contexts), cardinality(property_types), cardinality(destinations),
            cardinality(problems)
        ])) IS NOT TRUE THEN
            wrong := 'the columns are not of one length';
        END IF;
        IF wrong IS NULL THEN
            SELECT {schema}.wrong_message(
                'x', 'x', 'x', NULL, one.context::jsonb, one.types_of_it::jsonb, ''
            ) AS problem
            INTO wrong FROM unnest(contexts, property_types, destinations) AS one (context, types_of_it, queues)
            WHERE one.queues > 0 ORDER BY 1 LIMIT 1;
        END IF;
        IF wrong IS NOT NULL THEN
            RAISE EXCEPTION '%', wrong USING ERRCODE = 'invalid_parameter_value';
        END IF;
        PERFORM {schema}.permit_meanings(entry_queues, entry_meanings);
    END IF;
    IF known_version IS DISTINCT FROM {schema}.hold_definitions() THEN
        RETURN FALSE;
    END IF;
    -- First of all: a router touches nothing else, and sees nothing of it.
    DELETE FROM {schema}.to_route AS known USING unnest(arrival_ids, positions) AS message (arrival_id, position)
    WHERE known.arrival_id = ANY (ARRAY[message.arrival_id]) AND known.position = ANY (ARRAY[message.position]);
    GET DIAGNOSTICS gone = ROW_COUNT;
    IF gone <> cardinality(arrival_ids) THEN
        RAISE EXCEPTION 'these messages don''t wait to be routed' USING ERRCODE = 'insufficient_privilege';
    END IF;
    PERFORM {schema}.route_again(
        known_version, arrival_ids, positions, contexts, property_types, destinations, problems, entry_places,
        entry_queues, entry_groups, entry_sequences, entry_sizes, entry_priorities, entry_problems,
        entry_subscriptions, numbered_queues, entry_meanings
    );
    PERFORM {schema}.call_waiters(ARRAY(SELECT DISTINCT unnest(entry_queues)), gone);
    RETURN TRUE;
END
$function$;
