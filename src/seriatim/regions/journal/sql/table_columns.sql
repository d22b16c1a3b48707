-- The columns of a table, as far as the role may see them; without a schema: of the present one.
SELECT column_name
FROM information_schema.columns
WHERE table_schema = coalesce(%(schema)s::text, current_schema) AND table_name = %(name)s
