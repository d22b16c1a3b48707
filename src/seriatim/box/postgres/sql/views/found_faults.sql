-- Purpose: what handlers failed at, of messages or groups that have a text as their id or key, newest first; of messages that
-- are gone, too.
-- Index: faults_of_message; faults_of_group, once for each queue.
{shown_faults()}
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
    AND {in_time(one.at)}
ORDER BY one.fault_id DESC
LIMIT %(limit)s
