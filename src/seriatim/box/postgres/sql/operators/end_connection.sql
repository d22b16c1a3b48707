-- Purpose: end a connection to this database; its transaction is rolled back, and its locks are free. FALSE: it has ended before.
-- Index: none.
SELECT pg_terminate_backend(act.pid, %(patience_ms)s) FROM pg_stat_activity AS act
WHERE act.pid = %(pid)s AND act.datname = current_database() AND act.backend_type = 'client backend' AND act.pid <> pg_backend_pid()
