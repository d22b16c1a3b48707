CREATE OR REPLACE VIEW {schema}.seen_message_places WITH (security_barrier) AS
SELECT * FROM {schema}.message_places
WHERE queue IN (
    SELECT known.queue FROM {schema}.queues AS known
    WHERE known.queue_id = ANY ((SELECT {schema}.sees('see'))::integer[])
);
