-- Purpose: transactions that hold groups, or hold back vacuum, for longer than is good; idle ones first, prepared ones
-- among them. `is_ours`: of a connection of seriatim's. `hidden`: how many sessions of other roles the caller may not
-- inspect; always one row, whose other columns are NULL where there is no such transaction.
-- Index: the server's own views.
SELECT one.pid, one.name, one.role, one.address, one.is_idle, one.is_ours, one.seconds, one.idle_s, one.gid, others.hidden
FROM (
    SELECT count(*) AS hidden FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type IS NULL AND state IS NULL
) AS others
LEFT JOIN (
    SELECT
        pid, application_name AS name, usename AS role, host(client_addr) AS address,
        state LIKE 'idle in transaction%%' AS is_idle,
        application_name LIKE 'seriatim%%' AS is_ours,
        extract(epoch FROM clock_timestamp() - xact_start)::float8 AS seconds,
        extract(epoch FROM clock_timestamp() - state_change)::float8 AS idle_s,
        NULL AS gid
    FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
        AND xact_start < clock_timestamp() - make_interval(secs => %(seconds)s)
    UNION ALL
    SELECT
        NULL, NULL, owner, NULL, TRUE, FALSE, extract(epoch FROM clock_timestamp() - prepared)::float8,
        extract(epoch FROM clock_timestamp() - prepared)::float8, gid
    FROM pg_prepared_xacts
    WHERE database = current_database() AND prepared < clock_timestamp() - make_interval(secs => %(seconds)s)
) AS one ON TRUE
ORDER BY one.is_idle DESC, one.seconds DESC
LIMIT %(most)s
