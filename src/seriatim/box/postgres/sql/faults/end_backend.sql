-- Purpose: end the connection of a turn that took too long, so that its group is free; not a later one with the same
-- number.
SELECT pg_terminate_backend(pid)
FROM pg_stat_activity
WHERE pid = %(pid)s AND datname = current_database() AND backend_start < now() - %(since)s::interval
