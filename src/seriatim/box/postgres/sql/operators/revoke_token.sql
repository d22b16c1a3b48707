-- Purpose: make a token invalid.
-- Locks: the token's row.
-- Index: tokens_pkey.
DELETE FROM {schema}.tokens WHERE name = %(name)s
