-- Purpose: wait for a lock for so many milliseconds at most, until the transaction or its savepoint ends.
-- Caller: migration_locks.py.
-- Locks: none.
-- Index: none.
SELECT set_config('lock_timeout', %(milliseconds)s::text, TRUE)
