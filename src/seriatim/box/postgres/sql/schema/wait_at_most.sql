-- Purpose: wait for a lock for so many milliseconds at most, until the transaction or its savepoint ends.
SELECT set_config('lock_timeout', %(milliseconds)s::text, TRUE)
