-- Purpose: the functions, views, tables and sequences of a box, and the days of its history, that belong to another role than their
-- schema, such as a superuser that has migrated it or cleaned it up: the statement that gives each to the schema's owner. Only those
-- that the caller may give.
-- Index: the catalog's own.
SELECT format('ALTER %%s OWNER TO %%I', made.described, pg_get_userbyid(place.nspowner)) AS given
FROM pg_namespace AS place
JOIN LATERAL (
    SELECT format('ROUTINE %%s', one.oid::regprocedure) AS described, one.proowner AS owner FROM pg_proc AS one
    WHERE one.pronamespace = place.oid AND one.proname = ANY (%(names)s)
    UNION ALL
    SELECT format('%%s %%s', CASE one.relkind WHEN 'v' THEN 'VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, one.oid::regclass),
        one.relowner
    FROM pg_class AS one
    WHERE one.relnamespace = place.oid AND one.relkind IN ('r', 'p', 'v', 'S')
        AND (one.relname = ANY (%(names)s) OR one.relispartition)
) AS made ON made.owner <> place.nspowner AND pg_has_role(made.owner, 'USAGE')
WHERE place.nspname = %(schema)s AND to_regclass(format('%%I.migrations', place.nspname)) IS NOT NULL
