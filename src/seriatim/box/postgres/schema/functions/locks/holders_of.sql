-- Return the holder of a lock, in words; NULL: there is none.
CREATE OR REPLACE FUNCTION {schema}.holders_of(key bigint) RETURNS text
AS $function$
BEGIN
    RETURN (
        SELECT string_agg(coalesce(
            format('process %s of the role "%s"', held.pid, worker.usename), 'a prepared transaction'
        ), ', ')
        FROM (
            SELECT pid FROM pg_locks
            WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND pid IS DISTINCT FROM pg_backend_pid()
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                AND (classid::bigint << 32) | objid::bigint = key
            ORDER BY pid LIMIT 3
        ) AS held LEFT JOIN pg_stat_activity AS worker ON worker.pid = held.pid
    );
END
$function$;
