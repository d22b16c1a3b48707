-- The order in which streams are sent, so that a batch reads its own streams and no others.
DROP INDEX {schema}.link_streams_to_send;
CREATE INDEX link_streams_to_send ON {schema}.link_streams_out (link_id, next_try_at, last_used, incarnation, number)
WHERE status <> {status.OPEN} OR acked < sent;
