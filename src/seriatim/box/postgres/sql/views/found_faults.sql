-- Purpose: what handlers failed at, of messages or groups that have a text as their id or key, newest first; of messages that
-- are gone, too.
-- Caller: find.py.
-- Locks: none.
-- Index: faults_of_message; faults_of_group, once for each queue.
SELECT
    one.fault_id, place.queue, one.group_key AS "group", one.message_id, one.type, one.sequence, one.ordinal, one.attempt,
    one.kind, one.error_class, one.error, one.traceback, one.at, one.worker, one.retry_at
FROM {schema}.faults AS one LEFT JOIN {schema}.queues AS place USING (queue_id)
WHERE one.fault_id IN (
    (
        SELECT fault.fault_id FROM {schema}.faults AS fault WHERE fault.message_id = %(text)s::text
        ORDER BY fault.fault_id DESC LIMIT %(limit)s
    ) UNION ALL (
        SELECT newest.fault_id FROM {schema}.queues AS known CROSS JOIN LATERAL (
            SELECT fault.fault_id FROM {schema}.faults AS fault
            WHERE fault.queue_id = known.queue_id AND fault.group_key = ANY (%(group_keys)s::text[])
            ORDER BY fault.fault_id DESC LIMIT %(limit)s
        ) AS newest
    )
)
    AND (%(since)s::timestamptz IS NULL OR one.at >= %(since)s::timestamptz)
    AND (%(since_ago)s::interval IS NULL OR one.at >= clock_timestamp() - %(since_ago)s::interval)
    AND (%(until)s::timestamptz IS NULL OR one.at < %(until)s::timestamptz)
    AND (%(until_ago)s::interval IS NULL OR one.at < clock_timestamp() - %(until_ago)s::interval)
ORDER BY one.fault_id DESC
LIMIT %(limit)s
