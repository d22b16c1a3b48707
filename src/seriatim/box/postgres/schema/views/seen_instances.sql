-- State and correlations are values that handlers took out of bodies.
CREATE OR REPLACE VIEW {schema}.seen_instances WITH (security_barrier) AS
SELECT
    one.instance_id, one.queue, one.group_key, one.status, one.subscription, one.starts,
    CASE WHEN place.queue_id = ANY ((SELECT {schema}.sees('see_bodies'))::integer[]) THEN one.correlations ELSE '{}' END
        AS correlations,
    one.waiting,
    CASE
        WHEN place.queue_id = ANY ((SELECT {schema}.sees('see_bodies'))::integer[]) THEN one.state
        ELSE '{}'
    END AS state,
    one.version, one.started_at, one.changed_at
FROM {schema}.instances AS one JOIN {schema}.queues AS place USING (queue)
WHERE place.queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);
