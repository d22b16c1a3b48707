-- Purpose: wait for a lock for so long at most, until the transaction ends; answers how long it was before.
-- Caller: migrate.py.
-- Locks: none.
-- Index: none.
WITH was AS MATERIALIZED (SELECT current_setting('lock_timeout') AS most)
SELECT was.most, set_config('lock_timeout', %(most)s, TRUE) AS now_is FROM was
