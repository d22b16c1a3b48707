CREATE OR REPLACE VIEW {schema}.seen_known_groups WITH (security_barrier) AS
SELECT * FROM {schema}.known_groups WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);
