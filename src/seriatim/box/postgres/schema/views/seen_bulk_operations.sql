-- A role sees the operations all of whose queues it sees.
CREATE OR REPLACE VIEW {schema}.seen_bulk_operations WITH (security_barrier) AS
SELECT * FROM {schema}.bulk_operations WHERE queue_ids <@ (SELECT {schema}.sees('see'))::integer[];
