-- Refuse messages that the caller, who isn't the owner, may not publish, or that a receiver couldn't read. The arrays
-- are those of `take_in`; an entry's needs follow from the policy of its queue.
-- is: stable
CREATE OR REPLACE FUNCTION {schema}.permit_incoming(
    message_ids text[], types text[], locations text[], content_types text[],
    contexts text[], property_types text[], bodies bytea[], destinations integer[], problems text[],
    seen_from timestamptz,
    entry_places bigint[], entry_queues integer[], entry_groups text[], entry_sequences bigint[],
    entry_sizes bigint[], entry_priorities integer[], entry_problems text[], entry_subscriptions text[],
    part_counts integer[], part_places bigint[], part_names text[], part_content_types text[], part_bodies bytea[]
) RETURNS void
AS $function$
DECLARE
    many integer := cardinality(message_ids);
    named integer := cardinality(part_places);
    granted integer[] := {schema}.permitted('publish');
    wrong text;
BEGIN
    IF cardinality(granted) = 0 OR (entry_queues <@ granted) IS NOT TRUE THEN
        PERFORM {schema}.permit('publish', ARRAY(
            SELECT DISTINCT one.queue_id
            FROM unnest(entry_queues, entry_subscriptions, {schema}.items_at(types, entry_places))
                AS one (queue_id, subscription_ids, type)
            WHERE one.queue_id IS NOT NULL AND one.queue_id <> ALL (granted)
                AND {schema}.is_asked_for(one.queue_id, one.subscription_ids::integer[], one.type) IS NOT TRUE
        ));
    END IF;
    IF (
        many = ALL (ARRAY[
            cardinality(types), cardinality(locations), cardinality(content_types), cardinality(contexts),
            cardinality(property_types), cardinality(bodies), cardinality(destinations), cardinality(problems)
        ])
        AND (part_counts IS NULL OR (many = cardinality(part_counts) AND named = ALL (ARRAY[
            cardinality(part_names), cardinality(part_content_types), cardinality(part_bodies)
        ])))
    ) IS NOT TRUE THEN
        wrong := 'the columns are not of one length';
    ELSE
        wrong := {schema}.wrong_moment(seen_from);
    END IF;
    IF wrong IS NULL THEN
        SELECT coalesce(
            {schema}.wrong_message(
                one.id, one.type, one.location, one.content_type, one.properties, one.property_types, one.body
            ),
            CASE
                WHEN one.problem = '' OR length(one.problem) > 2000
                    THEN 'what is wrong with it has 1 to 2000 characters'
            END
        ) INTO wrong
        FROM (
            SELECT
                given.id, given.type, given.location, given.content_type,
                {schema}.without_origin(given.context::jsonb) AS properties,
                given.types_of_it::jsonb AS property_types, given.body, given.problem
            FROM unnest(
                message_ids, types, locations, content_types, contexts, property_types, bodies, problems
            ) AS given (id, type, location, content_type, context, types_of_it, body, problem)
            OFFSET 0
        ) AS one
        ORDER BY 1 LIMIT 1;
        wrong := coalesce(wrong, {schema}.wrong_entries(
            destinations, entry_places, entry_queues, entry_groups, entry_sequences, entry_sizes, entry_priorities,
            entry_problems, entry_subscriptions
        ));
        IF wrong IS NULL AND part_counts IS NOT NULL THEN
            SELECT CASE
                WHEN coalesce(length(one.name), 0) NOT BETWEEN 1 AND 256
                    THEN 'a part needs a name of 1 to 256 characters'
                WHEN one.content_type = '' THEN 'a part can''t have an empty content type, but it can be NULL'
                WHEN one.body IS NULL THEN 'a part can''t be NULL, but its body can be empty'
                WHEN part_counts[one.place] IS DISTINCT FROM one.parts THEN 'a message has another number of parts'
            END INTO wrong
            FROM (
                SELECT given.*, count(*) OVER (PARTITION BY given.place) AS parts
                FROM unnest(
                    part_places, part_names, part_content_types, part_bodies
                ) AS given (place, name, content_type, body)
            ) AS one
            ORDER BY 1 LIMIT 1;
        END IF;
    END IF;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION '%', wrong USING ERRCODE = 'invalid_parameter_value';
    END IF;
END
$function$;
