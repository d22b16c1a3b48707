-- Purpose: the holders of the lock of lock_schema.sql.
SELECT held.pid, coalesce(worker.usename, '')::text AS role
FROM pg_locks AS held LEFT JOIN pg_stat_activity AS worker ON worker.pid = held.pid
WHERE held.locktype = 'advisory' AND held.objsubid = 1 AND held.granted
    AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND (held.classid::bigint << 32) | held.objid::bigint = hashtextextended('seriatim:' || %(schema)s, 0)
ORDER BY held.pid
