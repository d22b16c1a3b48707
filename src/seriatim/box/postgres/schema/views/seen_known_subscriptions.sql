CREATE OR REPLACE VIEW {schema}.seen_known_subscriptions WITH (security_barrier) AS
SELECT * FROM {schema}.known_subscriptions WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);
