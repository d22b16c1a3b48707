-- Purpose: how many messages have left a group, by its committed state.
-- Index: known_groups_pkey.
SELECT state[6] AS ordinal FROM {schema}.turn_groups(%(queue_id)s, ARRAY[%(group_key)s]::text[])
