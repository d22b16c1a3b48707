-- The queues that are gates, for roles that see them.
CREATE OR REPLACE VIEW {schema}.seen_ways WITH (security_barrier) AS
SELECT * FROM {schema}.ways WHERE gate_id = ANY ((SELECT {schema}.sees('see'))::integer[]);
