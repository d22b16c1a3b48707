-- Purpose: transactions that hold groups, or hold back vacuum, for longer than is good.
-- Index: the server's own view.
SELECT pid, application_name, extract(epoch FROM clock_timestamp() - xact_start)::float8 AS seconds
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
    AND xact_start < clock_timestamp() - make_interval(secs => %(seconds)s)
ORDER BY xact_start
LIMIT %(most)s
