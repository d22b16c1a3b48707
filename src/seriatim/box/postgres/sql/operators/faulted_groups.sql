-- Purpose: the faulted groups of some queues, with what failed last in each, when, and how often that was recovered.
-- Index: groups_faulted, queues_pkey, faults_of_group, operator_log_of_group.
SELECT
    known.queue_id,
    known.group_key AS "group",
    (extract(epoch FROM fault.at) * 1000000)::bigint AS failed_at,
    (
        SELECT count(*) FROM {schema}.operator_log AS log
        WHERE log.queue = place.queue AND log.group_key = known.group_key AND log.action = 'retry'
            AND log.actor = %(actor)s AND log.details ->> 'message_id' = fault.message_id
    ) AS done,
    {schema}.now_us() AS now
FROM {schema}.known_groups AS known
JOIN {schema}.queues AS place USING (queue_id)
CROSS JOIN LATERAL (
    SELECT one.at, one.message_id FROM {schema}.faults AS one
    WHERE one.queue_id = known.queue_id AND one.group_key = known.group_key
    ORDER BY one.fault_id DESC LIMIT 1
) AS fault
WHERE known.queue_id = ANY (%(queue_ids)s::integer[]) AND known.flags & {flag.FAULTED} <> 0
    AND known.flags & {flag.SUSPENDED} = 0
