-- Requests that wait for replies: for the owner. A look finds nothing there.
CREATE OR REPLACE VIEW {schema}.seen_open_requests WITH (security_barrier) AS SELECT * FROM {schema}.open_requests WHERE FALSE;
