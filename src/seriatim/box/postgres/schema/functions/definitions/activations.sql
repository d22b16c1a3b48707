-- Return the queues that have an activation and that the caller may receive from. `ready`: how many of its groups
-- have something to do; of an `Unordered` queue, how many messages. The count stops at one more than the most
-- readers, and only the first thousand messages that aren't judged are counted.
-- is: stable, definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.activations()
RETURNS TABLE (
    queue_id integer, queue text, activation jsonb, enabled boolean, activated boolean, owner text, ready integer,
    workers integer, in_flight integer
)
AS $function$
#variable_conflict use_column
DECLARE
    at_us bigint := {schema}.now_us();
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[]::integer[]);
    RETURN QUERY
    SELECT
        place.queue_id, place.queue, place.definition -> 'activation', place.enabled, place.activated, place.owner,
        CASE WHEN place.definition -> 'policy' ->> 'name' = 'unordered' THEN loose.ready ELSE grouped.ready END,
        setting.workers, setting.in_flight
    FROM {schema}.queues AS place
    LEFT JOIN {schema}.queue_settings AS setting ON setting.queue_id = place.queue_id
    CROSS JOIN LATERAL (
        SELECT least(
            coalesce(setting.workers, {schema}.whole_number(place.definition -> 'activation' -> 'maximum')),
            setting.in_flight, 1000
        )::integer + 1 AS readers
    ) AS most
    CROSS JOIN LATERAL (
        SELECT count(*)::integer AS ready FROM (
            SELECT FROM {schema}.entries AS entry
            WHERE place.definition -> 'policy' ->> 'name' = 'unordered' AND entry.queue_id = place.queue_id
                AND entry.status = 'arrived' AND (entry.visible_at IS NULL OR entry.visible_at <= clock_timestamp())
                AND (entry.subscription_ids <> '{}' AND entry.subscription_ids <@ (
                    SELECT array_agg(known.subscription_id) FROM {schema}.known_subscriptions AS known
                    WHERE known.queue_id = place.queue_id AND known.state <> 'started'
                )) IS NOT TRUE
            LIMIT most.readers
        ) AS entry
    ) AS loose
    CROSS JOIN LATERAL (
        SELECT count(*)::integer AS ready FROM (
            SELECT DISTINCT one.group_key FROM (
                (
                    SELECT known.group_key FROM {schema}.known_groups AS known
                    WHERE known.queue_id = place.queue_id AND known.ready_rank IS NOT NULL
                    ORDER BY known.ready_rank LIMIT most.readers
                ) UNION ALL (
                    SELECT known.group_key FROM {schema}.known_groups AS known
                    WHERE known.queue_id = place.queue_id AND known.due_at <= at_us
                    ORDER BY known.due_at LIMIT most.readers
                ) UNION ALL (
                    SELECT entry.group_key FROM {schema}.entries AS entry
                    WHERE entry.queue_id = place.queue_id AND entry.status = 'arrived' ORDER BY entry.rank LIMIT 1000
                ) UNION ALL (
                    SELECT asked.group_key FROM {schema}.requests AS asked
                    WHERE asked.queue_id = place.queue_id ORDER BY asked.rank LIMIT most.readers
                )
            ) AS one
            LIMIT most.readers
        ) AS known
    ) AS grouped
    WHERE place.definition -> 'activation' <> 'null'::jsonb
        AND ({schema}.is_owner() OR place.queue_id = ANY ({schema}.permitted('receive')));
END
$function$;
