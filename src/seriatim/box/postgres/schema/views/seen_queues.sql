-- Without its activation, which may name a port with its secrets.
CREATE OR REPLACE VIEW {schema}.seen_queues WITH (security_barrier) AS
SELECT queue_id, queue, definition - 'activation' AS definition, enabled, owner, incarnation, activated
FROM {schema}.queues WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);
