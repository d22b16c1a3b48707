-- Purpose: is there a schema of that name, has it a box's record of migrations, and does that say what they were? Which of
--     these functions has it not?
-- Caller: migrate.py.
-- Locks: none.
-- Index: the catalog's own.
SELECT
    EXISTS (SELECT FROM pg_namespace WHERE nspname = %(schema)s) AS is_there,
    EXISTS (
        SELECT FROM pg_class AS class JOIN pg_namespace AS space ON space.oid = class.relnamespace
        WHERE space.nspname = %(schema)s AND class.relname = 'migrations'
    ) AS is_box,
    EXISTS (
        SELECT FROM pg_proc AS known JOIN pg_namespace AS space ON space.oid = known.pronamespace
        WHERE space.nspname = %(schema)s AND known.proname = 'applied_migrations'
    ) AS has_checksums,
    ARRAY(
        SELECT wanted FROM unnest(%(functions)s::text[]) AS wanted
        EXCEPT
        SELECT known.proname::text FROM pg_proc AS known JOIN pg_namespace AS space ON space.oid = known.pronamespace
        WHERE space.nspname = %(schema)s
        ORDER BY 1
    ) AS missing
