CREATE OR REPLACE VIEW {schema}.seen_stopped_groups WITH (security_barrier) AS
SELECT * FROM {schema}.stopped_groups WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);
