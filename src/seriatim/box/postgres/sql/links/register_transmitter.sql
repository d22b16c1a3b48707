-- Purpose: let publishers into remote queues notify this connection.
-- Index: none; the table of queues is small.
INSERT INTO {schema}.waiters (queue_id, channel, routes)
SELECT place.queue_id, 'seriatim_' || pg_backend_pid(), FALSE FROM {schema}.queues AS place
WHERE place.definition ->> 'at' IN (SELECT link FROM {schema}.known_links WHERE definition IS NOT NULL)
