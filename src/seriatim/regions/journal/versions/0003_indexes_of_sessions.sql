-- Each message changes the state and the last use of its session twice. With an index over these every change wrote all indexes anew; without one it writes none
-- (PostgreSQL's heap-only tuples). Who forgets sessions, and who lists them, goes by the key.
DROP INDEX IF EXISTS {schema}.sessions_not_idle;
DROP INDEX IF EXISTS {schema}.sessions_by_use;
