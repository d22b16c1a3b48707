CREATE OR REPLACE VIEW {schema}.seen_queue_counts WITH (security_barrier) AS
SELECT * FROM {schema}.queue_counts
WHERE queue IN (
    SELECT known.queue FROM {schema}.queues AS known
    WHERE known.queue_id = ANY ((SELECT {schema}.sees('see'))::integer[])
);
