-- The caller's rights are read once, and not for each queue.
CREATE OR REPLACE VIEW {schema}.seen_operator_log WITH (security_barrier) AS
SELECT * FROM {schema}.operator_log
WHERE queue IN (
    SELECT known.queue FROM {schema}.queues AS known
    WHERE known.queue_id = ANY ((SELECT {schema}.sees('see'))::integer[])
);
