-- Purpose: note that a part is staged: its version of the definitions, and its size.
-- Locks: the part's row.
-- Index: parts_pkey.
UPDATE {schema}.parts SET version = %(version)s, messages = %(messages)s, entries = %(entries)s
WHERE part_id = %(part_id)s
