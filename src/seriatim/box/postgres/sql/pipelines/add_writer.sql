-- Purpose: store a writer, and the number of the last run that writes under its name.
-- Locks: the writer's row, if it or the run is new.
-- Index: writers_pkey.
INSERT INTO {schema}.writers AS known (writer, fence) VALUES (%(writer)s, %(fence)s)
ON CONFLICT (writer) DO UPDATE SET fence = excluded.fence WHERE known.fence < excluded.fence
