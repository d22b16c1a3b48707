-- Purpose: the connections of applications to this database, those first whose transaction is oldest. `locks`: the locks of groups,
-- dialogs and the like that it holds. Of another role's a caller without pg_read_all_stats sees little more than the process.
-- Index: the server's own views.
SELECT
    act.pid, coalesce(act.application_name, '') AS name, act.usename AS role, host(act.client_addr) AS address, act.state,
    extract(epoch FROM clock_timestamp() - act.xact_start)::float8 AS transaction_s,
    CASE WHEN act.state LIKE 'idle%%' THEN extract(epoch FROM clock_timestamp() - act.state_change)::float8 END AS idle_s,
    (SELECT count(*) FROM pg_locks AS held WHERE held.pid = act.pid AND held.locktype = 'advisory' AND held.granted) AS locks
FROM pg_stat_activity AS act
WHERE act.datname = current_database() AND act.backend_type = 'client backend' AND act.pid <> pg_backend_pid()
    AND (%(pid)s::integer IS NULL OR act.pid = %(pid)s::integer)
ORDER BY act.xact_start NULLS LAST, act.pid
