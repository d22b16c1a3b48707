-- Purpose: make a schedule, or change one; paused stays paused, and its due time stays where none is given.
-- Locks: the row; waits for a process that publishes for it.
-- Index: schedules_pkey.
INSERT INTO {schema}.schedules AS known (schedule, definition, next_at)
VALUES (%(name)s, %(definition)s::jsonb, %(next_at)s)
ON CONFLICT (schedule) DO UPDATE
SET definition = excluded.definition,
    next_at = CASE WHEN %(moves)s::boolean THEN excluded.next_at ELSE known.next_at END,
    failed_at = NULL, error = NULL, look_at = NULL
