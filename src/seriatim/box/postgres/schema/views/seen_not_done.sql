CREATE OR REPLACE VIEW {schema}.seen_not_done WITH (security_barrier) AS
SELECT * FROM {schema}.not_done WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);
