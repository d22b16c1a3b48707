CREATE OR REPLACE VIEW {schema}.seen_stored_messages WITH (security_barrier) AS
SELECT
{stored_message(seen_spool)};
