-- Purpose: note that a batch of a writer is in the box, routed by that version of the definitions.
-- Locks: the writer's row.
-- Index: writers_pkey.
UPDATE {schema}.writers SET
    batch = %(batch)s, version = %(version)s, messages = messages + %(messages)s, merged_at = now()
WHERE writer = %(writer)s
