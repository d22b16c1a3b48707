-- The present instances, read without locks. `status`: suspended if their group is. `correlations`: the values by
-- property, without the key of the group.
CREATE OR REPLACE VIEW {schema}.instances AS
SELECT
    known.instance_id,
    place.queue,
    known.group_key,
    CASE WHEN coalesce((
        SELECT action = 'suspend' FROM {schema}.requests AS request
        WHERE request.queue_id = known.queue_id AND request.group_key = known.group_key AND request.action <> 'look'
        ORDER BY request_id DESC LIMIT 1
    ), judged.flags & {flag.SUSPENDED} <> 0, FALSE) THEN 'suspended' ELSE 'running' END AS status,
    one.subscription,
    one.definition ->> 'starts' AS starts,
    coalesce((
        SELECT jsonb_object_agg(each.property, each.found) FROM (
            SELECT added.property, jsonb_agg(added.value ORDER BY added.value) AS found
            FROM {schema}.correlations AS added
            WHERE added.instance_id = known.instance_id GROUP BY added.property
        ) AS each
    ), '{}') AS correlations,
    (
        SELECT count(*) FROM {schema}.entries AS entry
        WHERE entry.queue_id = known.queue_id AND entry.group_key = known.group_key
    ) AS waiting,
    known.state,
    known.version,
    known.started_at,
    known.changed_at
FROM {schema}.known_instances AS known
JOIN {schema}.queues AS place USING (queue_id)
LEFT JOIN {schema}.known_subscriptions AS one USING (subscription_id)
LEFT JOIN {schema}.known_groups AS judged ON judged.queue_id = known.queue_id AND judged.group_key = known.group_key;
