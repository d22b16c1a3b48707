-- Purpose: forget some groups of a queue that were idle since before a moment.
-- Caller: purge.py.
-- Locks: the definitions and the groups, until the transaction ends; a group that somebody has is passed over.
-- Index: known_groups_pkey, from a key on; entries_of_group, requests_of_group.
SELECT forgotten, through
FROM {schema}.forget_expired(%(queue_id)s, %(before)s::timestamptz, %(after)s, %(groups)s)
