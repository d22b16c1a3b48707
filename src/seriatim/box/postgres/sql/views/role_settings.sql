-- Purpose: the time limits that are set for roles and that end turns.
-- Index: the server's own catalogue.
SELECT
    coalesce(one.rolname, 'ALL') AS role, split_part(item, '=', 1) AS name, split_part(item, '=', 2) AS value
FROM pg_db_role_setting AS given
LEFT JOIN pg_roles AS one ON one.oid = given.setrole
CROSS JOIN unnest(given.setconfig) AS item
WHERE given.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
    AND split_part(item, '=', 1) IN (
        'idle_in_transaction_session_timeout', 'idle_session_timeout', 'lock_timeout', 'statement_timeout',
        'transaction_timeout'
    )
ORDER BY role, name
