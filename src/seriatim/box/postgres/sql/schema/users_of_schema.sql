-- Purpose: which transactions keep others from locking the tables of lock_out.sql, the oldest first, and their ages in
-- seconds.
SELECT
    held.pid, coalesce(worker.usename, '')::text AS role, coalesce(worker.application_name, '') AS program,
    coalesce(extract(epoch FROM clock_timestamp() - min(worker.xact_start)), 0)::double precision AS seconds
FROM pg_locks AS held LEFT JOIN pg_stat_activity AS worker ON worker.pid = held.pid
WHERE held.locktype = 'relation' AND held.granted AND held.pid <> pg_backend_pid()
    AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND held.relation IN ('{schema}.arrivals'::regclass, '{schema}.spool'::regclass, '{schema}.entries'::regclass)
GROUP BY 1, 2, 3 ORDER BY seconds DESC
