-- Purpose: set how long message ids are remembered, or faults or events kept; what is NULL stays.
-- Locks: the box's row of keeping.
-- Index: none; one row.
UPDATE {schema}.keeping SET
    message_ids_for = coalesce(%(message_ids)s, message_ids_for), faults_for = coalesce(%(faults)s, faults_for),
    events_for = coalesce(%(events)s, events_for)
