-- Purpose: the functions and views of a box, and the days of its history, that belong to another role than their schema, such as a
-- superuser that has migrated it or cleaned it up: the statement that gives each to the schema's owner.
-- Index: the catalog's own.
SELECT format('ALTER %%s OWNER TO %%I', made.described, pg_get_userbyid(place.nspowner)) AS given
FROM pg_namespace AS place
JOIN LATERAL (
    SELECT format('ROUTINE %%s', one.oid::regprocedure) AS described FROM pg_proc AS one
    WHERE one.pronamespace = place.oid AND one.proowner <> place.nspowner AND one.proname = ANY (%(names)s)
    UNION ALL
    SELECT format('VIEW %%s', one.oid::regclass) FROM pg_class AS one
    WHERE one.relnamespace = place.oid AND one.relowner <> place.nspowner AND one.relkind = 'v' AND one.relname = ANY (%(names)s)
    UNION ALL
    SELECT format('TABLE %%s', one.oid::regclass) FROM pg_class AS one JOIN pg_inherits AS part ON part.inhrelid = one.oid
    WHERE one.relnamespace = place.oid AND one.relowner <> place.nspowner AND one.relispartition
) AS made ON TRUE
WHERE place.nspname = %(schema)s
