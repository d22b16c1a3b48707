-- Purpose: limit the wait for a lock, milliseconds, until the transaction or its savepoint ends.
SELECT set_config('lock_timeout', %(milliseconds)s::text, TRUE)
