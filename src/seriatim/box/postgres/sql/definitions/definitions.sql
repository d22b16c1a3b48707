-- Purpose: everything that is defined, with its version, as of one moment.
-- Caller: known.py, where the version has changed.
-- Locks: none.
-- Index: none; these tables are small and read whole.
SELECT kind, id, name, definition, state, owner, incarnation, queue, subscriber, types FROM {schema}.definitions()
