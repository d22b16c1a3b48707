-- Purpose: `letter`, a message that was set aside, with `place`, its queue, and `fault`, the error at which its handler
-- failed last.
{schema}.aside AS letter
JOIN {schema}.queues AS place USING (queue_id)
LEFT JOIN LATERAL (
    SELECT one.error_class, one.error, one.error_class || ': ' || one.error AS told FROM {schema}.faults AS one
    WHERE one.entry_id = letter.entry_id ORDER BY one.fault_id DESC LIMIT 1
) AS fault ON TRUE
