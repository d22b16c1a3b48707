-- Purpose: the next version of what is defined; whoever routes reads it anew.
-- Caller: define.py, once a transaction, under the lock of the definitions.
-- Locks: none beyond the row.
-- Index: changes_pkey.
SELECT {schema}.record_change(%(what)s)
