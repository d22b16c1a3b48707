-- Which messages are replies, and not to which request: who knows its id reads it by that.
CREATE OR REPLACE VIEW {schema}.seen_replies WITH (security_barrier) AS
SELECT arrival_id, position, NULL::text AS request_id, entry_id FROM {schema}.replies;
