CREATE OR REPLACE VIEW {schema}.seen_requests WITH (security_barrier) AS
SELECT * FROM {schema}.requests WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);
