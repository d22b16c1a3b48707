-- Purpose: whether there is a schema of that name, with a box's record of migrations, and the functions that return it;
-- and which of these functions and views are missing.
-- Index: the catalog's own.
WITH space AS (
    SELECT oid FROM pg_namespace WHERE nspname = %(schema)s
), known AS (
    SELECT class.relname::text AS name, class.relkind FROM pg_class AS class WHERE class.relnamespace = (SELECT oid FROM space)
    UNION ALL
    SELECT routine.proname::text, 'f' FROM pg_proc AS routine WHERE routine.pronamespace = (SELECT oid FROM space)
)
SELECT
    EXISTS (SELECT FROM space) AS is_there,
    EXISTS (SELECT FROM known WHERE name = 'migrations' AND relkind = 'r') AS is_box,
    EXISTS (SELECT FROM known WHERE name = 'applied_migrations' AND relkind = 'f') AS has_checksums,
    EXISTS (SELECT FROM known WHERE name = 'applied_functions' AND relkind = 'f') AS has_function_sets,
    EXISTS (SELECT FROM known WHERE name = 'function_sets' AND relkind = 'r') AS keeps_function_sets,
    ARRAY(
        SELECT wanted FROM unnest(%(names)s::text[]) AS wanted
        EXCEPT
        SELECT name FROM known WHERE relkind IN ('v', 'f')
        ORDER BY 1
    ) AS missing
