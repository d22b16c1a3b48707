-- Purpose: the number of the dead letter a number of places after another one; none if there are fewer.
-- Index: aside_dead.
SELECT one.entry_id FROM {schema}.aside AS one
WHERE one.disposition = 'dead' AND one.entry_id > %(after)s::bigint
ORDER BY one.entry_id OFFSET %(most)s::integer - 1 LIMIT 1
