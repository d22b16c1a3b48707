-- Purpose: a part is staged: by which version it was routed, and how much it is.
-- Locks: the part's row.
-- Index: parts_pkey.
UPDATE {schema}.parts SET version = %(version)s, messages = %(messages)s, entries = %(entries)s
WHERE part_id = %(part_id)s
