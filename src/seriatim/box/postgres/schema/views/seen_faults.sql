CREATE OR REPLACE VIEW {schema}.seen_faults WITH (security_barrier) AS
SELECT * FROM {schema}.faults WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);
