-- Purpose: what has become of messages that were handed out, on a connection whose commits and savepoints nobody tells of.
-- Caller: turns.py, before they are done or put back there, and before the session goes on without them.
-- Locks: the group's advisory lock, or the messages, which the transaction has anyway.
-- Index: entries_pkey.
SELECT found.hand, found.is_left, found.is_put
FROM {schema}.standing(
    %(queue_id)s, %(group_key)s, %(entry_ids)s::bigint[], %(handed)s::xid8, %(put)s::xid8
) AS found
