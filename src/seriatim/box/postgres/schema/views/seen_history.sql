CREATE OR REPLACE VIEW {schema}.seen_history WITH (security_barrier) AS
SELECT * FROM {schema}.history WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);
