-- Purpose: the messages of some queues that are faulted by themselves, with when each failed last, and how often it was recovered.
-- Index: entries_faulted, queues_pkey, faults_of_entry, spool_pkey, operator_log_of_group.
SELECT
    entry.queue_id,
    entry.group_key AS "group",
    stored.message_id,
    (extract(epoch FROM fault.at) * 1000000)::bigint AS failed_at,
    (
        SELECT count(*) FROM {schema}.operator_log AS log
        WHERE log.queue = place.queue AND log.group_key = entry.group_key AND log.action = 'retry'
            AND log.actor = %(actor)s AND log.details ->> 'message_id' = stored.message_id
    ) AS done,
    {schema}.now_us() AS now
FROM {schema}.entries AS entry
JOIN {schema}.queues AS place USING (queue_id)
JOIN {schema}.spool AS stored USING (arrival_id, position)
CROSS JOIN LATERAL (
    SELECT one.at FROM {schema}.faults AS one WHERE one.entry_id = entry.entry_id ORDER BY one.fault_id DESC LIMIT 1
) AS fault
WHERE entry.queue_id = ANY (%(queue_ids)s::integer[]) AND entry.status = 'faulted'
