CREATE OR REPLACE VIEW {schema}.seen_bulk_groups WITH (security_barrier) AS
SELECT * FROM {schema}.bulk_groups WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);
