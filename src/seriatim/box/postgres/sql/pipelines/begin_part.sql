-- Purpose: a part of a batch begins to be staged.
-- Locks: none beyond the row.
-- Index: parts_pkey.
INSERT INTO {schema}.parts (writer, batch, number, version, messages, entries)
VALUES (%(writer)s, %(batch)s, %(number)s, %(version)s, 0, 0) RETURNING part_id
