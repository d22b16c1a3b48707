-- Purpose: as hand_out.sql, for a queue of a service; no rows where a timer or a lifetime is due, which goes before.
-- Caller: deliver.py, before it judges anything.
-- Locks: the group's advisory lock, until the transaction ends.
-- Index: endpoints_due; those of hand_out.sql.
SELECT handed.*
FROM {schema}.is_due() AS due
CROSS JOIN LATERAL {schema}.hand_out(%(queue_id)s, %(group_key)s, %(at_most)s, %(now_us)s) AS handed
WHERE NOT due
