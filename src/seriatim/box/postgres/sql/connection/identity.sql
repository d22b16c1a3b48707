-- Purpose: which server, database and schema it is, and which settings the connection has that change values.
-- The server is identified by the time of its start, which every role may read, and which a copy of it doesn't share.
-- Index: the catalog's own.
SELECT (
    SELECT concat_ws('/', extract(EPOCH FROM pg_postmaster_start_time()), base.oid, space.oid)
    FROM pg_catalog.pg_database AS base, pg_catalog.pg_namespace AS space
    WHERE base.datname = current_database() AND space.nspname = %(schema)s
) AS identity,
current_setting('array_nulls') AS array_nulls,
current_setting('transform_null_equals') AS transform_null_equals,
current_setting('extra_float_digits')::integer AS extra_float_digits
