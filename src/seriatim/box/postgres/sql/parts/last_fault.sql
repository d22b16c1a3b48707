-- Purpose: `failed`: the error at which the handler of `place`, a row of message_places, failed last in that queue.
LEFT JOIN LATERAL (
    SELECT one.error_class, one.error AS told, one.error_class || ': ' || one.error AS error, one.at
    FROM {schema}.faults AS one JOIN {schema}.queues AS its USING (queue_id)
    WHERE one.message_id = place.message_id AND its.queue = place.queue
    ORDER BY one.fault_id DESC LIMIT 1
) AS failed ON TRUE
