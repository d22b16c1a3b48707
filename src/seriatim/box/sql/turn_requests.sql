-- Purpose: what operators asked of the groups of a turn while they were locked, in order.
-- Caller: deliver.py, after it has locked the groups.
-- Locks: none; rows are deleted under the locks of their groups.
-- Index: requests_of_queue; the table is next to empty.
SELECT array_position(%(group_keys)s::text[], group_key) - 1 AS place, request_id, action
FROM {schema}.requests
WHERE queue_id = %(queue_id)s AND group_key = ANY (%(group_keys)s)
ORDER BY request_id
