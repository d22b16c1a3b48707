-- Purpose: is there a schema of that name, and has it a box's record of migrations?
-- Caller: migrate.py.
-- Locks: none.
-- Index: the catalog's own.
SELECT
    EXISTS (SELECT FROM pg_namespace WHERE nspname = %(schema)s) AS is_there,
    EXISTS (
        SELECT FROM pg_class AS class JOIN pg_namespace AS space ON space.oid = class.relnamespace
        WHERE space.nspname = %(schema)s AND class.relname = 'migrations'
    ) AS is_box
