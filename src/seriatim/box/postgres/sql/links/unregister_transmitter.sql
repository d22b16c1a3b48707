-- Purpose: end the notifications of this connection.
-- Locks: its rows, which a publisher may delete at the same time.
-- Index: none; few wait.
DELETE FROM {schema}.waiters WHERE channel = 'seriatim_' || pg_backend_pid()
