-- Purpose: which of these are views, or functions whose bodies PostgreSQL has parsed: they depend on the tables that they read.
-- Index: the catalog's own.
SELECT routine.proname::text AS name FROM pg_proc AS routine
WHERE routine.pronamespace = %(schema)s::regnamespace AND routine.proname = ANY (%(names)s::text[]) AND routine.prosqlbody IS NOT NULL
UNION ALL
SELECT class.relname::text FROM pg_class AS class
WHERE class.relnamespace = %(schema)s::regnamespace AND class.relname = ANY (%(names)s::text[]) AND class.relkind = 'v'
