-- Unrouted messages, and how long something is kept: for the owner. A look finds nothing there.
CREATE OR REPLACE VIEW {schema}.seen_unrouted WITH (security_barrier) AS SELECT * FROM {schema}.unrouted WHERE FALSE;
