CREATE OR REPLACE VIEW {schema}.seen_message_parts WITH (security_barrier) AS
SELECT part.* FROM {schema}.message_parts AS part JOIN {schema}.messages_seen AS kept USING (arrival_id, position)
WHERE kept.with_body;
