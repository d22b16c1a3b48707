-- Purpose: what there is in a schema, as PostgreSQL tells it: the kind and name of each thing, and how it is defined.
-- Caller: schema_comparison.py, which has set the search_path so that all names are qualified.
-- Locks: none.
-- Index: the catalog's own.
SELECT 'function' AS kind, known.oid::regprocedure::text AS name, pg_get_functiondef(known.oid) AS definition
FROM pg_proc AS known WHERE known.pronamespace = %(schema)s::regnamespace
UNION ALL
SELECT
    CASE known.relkind WHEN 'v' THEN 'view' WHEN 'S' THEN 'sequence' WHEN 'c' THEN 'type' ELSE 'table' END,
    known.oid::regclass::text,
    concat_ws(
        E'\n', known.relkind, known.relpersistence, pg_get_partkeydef(known.oid),
        pg_get_expr(known.relpartbound, known.oid),
        -- One that was restored from a dump has names for what needs none.
        CASE known.relkind WHEN 'v' THEN
            regexp_replace(pg_get_viewdef(known.oid), '(::[a-z ]+(\[\])?) AS [a-z0-9_]+', '\1', 'g')
        END,
        (
            SELECT string_agg(concat_ws(
                ' ', field.attname, format_type(field.atttypid, field.atttypmod), field.attcollation::regcollation,
                field.attnotnull, field.attidentity, field.attgenerated, pg_get_expr(given.adbin, given.adrelid)
            ), E'\n' ORDER BY field.attnum)
            FROM pg_attribute AS field LEFT JOIN pg_attrdef AS given
                ON given.adrelid = field.attrelid AND given.adnum = field.attnum
            WHERE field.attrelid = known.oid AND field.attnum > 0 AND NOT field.attisdropped
        ), (
            -- That a column is never NULL is said above.
            SELECT string_agg(held.conname || ' ' || pg_get_constraintdef(held.oid), E'\n' ORDER BY held.conname)
            FROM pg_constraint AS held WHERE held.conrelid = known.oid AND held.contype <> 'n'
        ), (
            SELECT string_agg(concat_ws(' ', pg_get_triggerdef(fires.oid), fires.tgenabled), E'\n' ORDER BY fires.tgname)
            FROM pg_trigger AS fires WHERE fires.tgrelid = known.oid AND NOT fires.tgisinternal
        ), (
            SELECT concat_ws(' ', seqtypid::regtype, seqstart, seqincrement, seqmin, seqmax, seqcycle)
            FROM pg_sequence WHERE seqrelid = known.oid
        )
    )
FROM pg_class AS known
WHERE known.relnamespace = %(schema)s::regnamespace AND known.relkind IN ('r', 'p', 'v', 'S', 'c')
UNION ALL
SELECT 'index', known.indexrelid::regclass::text, pg_get_indexdef(known.indexrelid)
FROM pg_index AS known JOIN pg_class AS of_table ON of_table.oid = known.indexrelid
WHERE of_table.relnamespace = %(schema)s::regnamespace
UNION ALL
SELECT 'domain', known.oid::regtype::text, concat_ws(
    ' ', format_type(known.typbasetype, known.typtypmod), known.typcollation::regcollation, known.typnotnull, (
        SELECT string_agg(pg_get_constraintdef(held.oid), ' ' ORDER BY held.conname)
        FROM pg_constraint AS held WHERE held.contypid = known.oid
    )
)
FROM pg_type AS known WHERE known.typnamespace = %(schema)s::regnamespace AND known.typtype = 'd'
