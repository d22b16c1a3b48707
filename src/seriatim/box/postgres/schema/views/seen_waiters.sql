CREATE OR REPLACE VIEW {schema}.seen_waiters WITH (security_barrier) AS
SELECT * FROM {schema}.waiters WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);
