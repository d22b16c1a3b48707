-- Settings of a queue that an operator changes while processes work on it. Each process asks for them with its heartbeat.

-- What is set for a queue; NULL: not set, and each process does as it was started. `workers`: threads in each process of
-- `seriatim work`, readers of `seriatim serve` in all. `in_flight`: groups that are worked on at once, and `rate`: messages a
-- second, of all processes together. `run_length`: messages of a group in one transaction.
CREATE TABLE {schema}.queue_settings (
    queue_id integer PRIMARY KEY REFERENCES {schema}.queues ON DELETE CASCADE,
    workers integer CHECK (workers BETWEEN 1 AND 1000),
    in_flight integer CHECK (in_flight BETWEEN 1 AND 100000),
    rate double precision CHECK (rate > 0 AND rate < 1e9),
    run_length integer CHECK (run_length BETWEEN 1 AND 100000),
    set_by text NOT NULL,
    set_at timestamptz NOT NULL DEFAULT now()
);

-- The queues that have an activation and that the caller may receive from, each with what is set for its readers. `ready`:
-- in how many of its groups there is something to do; of a queue without order, how many messages. It is counted to one more
-- than there may be readers, and of what nobody has judged yet only the first thousand are looked at.
DROP FUNCTION {schema}.activations();
CREATE FUNCTION {schema}.activations()
RETURNS TABLE (
    queue_id integer, queue text, activation jsonb, enabled boolean, activated boolean, owner text, ready integer,
    workers integer, in_flight integer
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
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
                AND (entry.subscription_ids <> '{{}}' AND entry.subscription_ids <@ (
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
