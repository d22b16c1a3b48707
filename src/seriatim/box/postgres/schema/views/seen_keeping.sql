CREATE OR REPLACE VIEW {schema}.seen_keeping WITH (security_barrier) AS SELECT * FROM {schema}.keeping;
