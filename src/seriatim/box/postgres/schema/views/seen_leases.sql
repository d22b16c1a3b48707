CREATE OR REPLACE VIEW {schema}.seen_leases WITH (security_barrier) AS
SELECT * FROM {schema}.leases WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);
