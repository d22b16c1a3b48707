-- Purpose: the triggers of a box that don't fire in every session.
-- Index: the catalog's own.
SELECT fires.tgrelid::regclass::text AS of_table, fires.tgname::text AS trigger
FROM pg_trigger AS fires JOIN pg_class AS known ON known.oid = fires.tgrelid
WHERE known.relnamespace = '{schema}'::regnamespace AND NOT fires.tgisinternal AND fires.tgenabled <> 'A'
ORDER BY 1, 2
