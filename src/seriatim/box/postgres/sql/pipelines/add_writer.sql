-- Purpose: know a writer.
-- Caller: staging.py, before lock_writer.
-- Locks: the writer's row, if it is new.
-- Index: writers_pkey.
INSERT INTO {schema}.writers (writer) VALUES (%(writer)s) ON CONFLICT DO NOTHING
