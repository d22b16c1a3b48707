-- Purpose: does what was handed out stand still, on a connection that may have been rolled back unseen?
-- Caller: turns.py, before it completes something there.
-- Locks: the group's advisory lock, if nobody has it, until the transaction ends.
-- Index: known_groups_pkey.
SELECT {schema}.is_in_hand(%(queue_id)s, %(group_key)s, %(entry_ids)s::bigint[], %(ordinals)s::bigint[]) AS is_in_hand
