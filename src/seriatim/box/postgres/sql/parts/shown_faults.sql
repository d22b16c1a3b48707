-- Purpose: the columns of `one`, a row of faults.
SELECT
    one.fault_id, place.queue, one.group_key AS "group", one.message_id, one.type, one.sequence, one.ordinal, one.attempt,
    one.kind, one.error_class, one.error, one.traceback, one.at, one.worker, one.retry_at
FROM {schema}.faults AS one LEFT JOIN {schema}.queues AS place USING (queue_id)
