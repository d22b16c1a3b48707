CREATE OR REPLACE VIEW {schema}.seen_entries WITH (security_barrier) AS
SELECT * FROM {schema}.entries WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);
