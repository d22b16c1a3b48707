CREATE OR REPLACE VIEW {schema}.seen_events WITH (security_barrier) AS
SELECT * FROM {schema}.events WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);
