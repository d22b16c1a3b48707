-- Purpose: forget processes that have been silent for an hour, and work on queues that are gone.
-- Locks: the rows that go.
-- Index: none; there are as many as work.
DELETE FROM {schema}.known_workers AS known
WHERE seen_at < clock_timestamp() - interval '1 hour'
    OR NOT EXISTS (SELECT FROM {schema}.queues AS place WHERE place.queue_id = known.queue_id)
