-- Return the error in entries of a role; NULL: none. The arrays are those of `enter`; `destinations` has an item for
-- each message.
-- is: stable
CREATE OR REPLACE FUNCTION {schema}.wrong_entries(
    destinations integer[], entry_places bigint[], entry_queues integer[], entry_groups text[],
    entry_sequences bigint[],
    entry_sizes bigint[], entry_priorities integer[], entry_problems text[], entry_subscriptions text[]
) RETURNS text
AS $function$
DECLARE
    wrong text;
BEGIN
    IF (cardinality(entry_places) = ALL (ARRAY[
        cardinality(entry_queues), cardinality(entry_groups), cardinality(entry_sequences), cardinality(entry_sizes),
        cardinality(entry_priorities), cardinality(entry_problems), cardinality(entry_subscriptions)
    ])) IS NOT TRUE THEN
        RETURN 'the columns are not of one length';
    END IF;
    SELECT looked.problem INTO wrong
    FROM unnest(
        entry_places, entry_queues, entry_groups, entry_sequences, entry_priorities, entry_problems
    ) AS one (place, queue_id, group_key, sequence, priority, problem)
    LEFT JOIN {schema}.queues AS known ON known.queue_id = one.queue_id
    CROSS JOIN LATERAL (SELECT CASE
        WHEN (one.place BETWEEN 1 AND cardinality(destinations)) IS NOT TRUE THEN 'an entry is of no message'
        WHEN known.queue_id IS NULL THEN 'an entry is for no queue'
        ELSE {schema}.wrong_entry(
            CASE
                WHEN known.definition #>> '{policy,name}' = 'unordered' AND known.definition ->> 'gate' IS NOT NULL
                    THEN 'fifo'
                WHEN known.definition #>> '{policy,name}' = 'standard' AND known.definition ->> 'sequence' = 'ticket'
                    -- Some messages of theirs have no number.
                    OR jsonb_typeof(known.definition -> 'sequence') = 'object'
                    OR known.definition @? '$.policy.by ? (@ == "position")'
                    OR known.definition @? '$.policies.*.by ? (@ == "position")'
                    THEN 'fifo'
                ELSE known.definition #>> '{policy,name}'
            END, one.group_key, one.sequence, one.priority, one.problem
        )
    END AS problem) AS looked
    WHERE looked.problem IS NOT NULL LIMIT 1;
    IF wrong IS NULL AND EXISTS (
        SELECT FROM unnest(destinations) WITH ORDINALITY AS one (queues, place)
        LEFT JOIN (
            SELECT taken.place, count(*) AS queues, count(DISTINCT taken.queue_id) AS others
            FROM unnest(entry_places, entry_queues) AS taken (place, queue_id) GROUP BY taken.place
        ) AS entry USING (place)
        WHERE one.queues IS DISTINCT FROM coalesce(entry.queues, 0) OR entry.queues <> entry.others
    ) THEN
        wrong := 'the number of its queues is another one, or a message is in a queue twice';
    END IF;
    RETURN wrong;
END
$function$;
