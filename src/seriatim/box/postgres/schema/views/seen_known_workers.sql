CREATE OR REPLACE VIEW {schema}.seen_known_workers WITH (security_barrier) AS
SELECT * FROM {schema}.known_workers WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);
