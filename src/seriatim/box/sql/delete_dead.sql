-- Purpose: delete dead letters; their messages go with the next clean-up, if nobody else has them.
-- Caller: dead_letters.py.
-- Locks: the rows.
-- Index: aside_pkey.
DELETE FROM {schema}.aside WHERE entry_id = ANY (%(entry_ids)s::bigint[]) AND disposition = 'dead'
RETURNING entry_id
