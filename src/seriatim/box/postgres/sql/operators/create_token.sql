-- Purpose: keep a token; no row if there is one of this name.
-- Locks: none beyond its own row.
-- Index: tokens_pkey.
INSERT INTO {schema}.tokens (name, hash, role, server, publish, receive, expires_at)
SELECT
    %(name)s, %(hash_body)s, known.oid::regrole, serving.oid::regrole, %(publish)s::integer[], %(receive)s::integer[],
    now() + %(expires_us)s::bigint * interval '1 microsecond'
FROM pg_roles AS known, pg_roles AS serving
WHERE known.rolname = %(role)s AND serving.rolname = %(server)s
ON CONFLICT (name) DO NOTHING
