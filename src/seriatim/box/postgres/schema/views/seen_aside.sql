CREATE OR REPLACE VIEW {schema}.seen_aside WITH (security_barrier) AS
SELECT * FROM {schema}.aside WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);
