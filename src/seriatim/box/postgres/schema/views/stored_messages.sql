CREATE OR REPLACE VIEW {schema}.stored_messages WITH (security_invoker = true) AS
SELECT
{stored_message(spool)};
