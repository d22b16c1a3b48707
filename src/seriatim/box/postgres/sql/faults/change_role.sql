-- Purpose: take another role until the transaction, or the savepoint, ends; return the former one.
WITH was AS MATERIALIZED (SELECT current_setting('role') AS role)
SELECT was.role, set_config('role', %(role)s, TRUE) AS now_is FROM was
