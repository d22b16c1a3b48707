CREATE OR REPLACE VIEW {schema}.seen_to_route WITH (security_barrier) AS SELECT * FROM {schema}.to_route WHERE FALSE;
