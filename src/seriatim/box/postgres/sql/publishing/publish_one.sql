-- Purpose: as publish.sql, for one message without parts that goes to one queue.
-- Caller: Session.publish.
-- Locks: none beyond its own rows, and the location's numbers where the commit follows at once. Two transactions with the
-- same message id wait for each other on it.
-- Index: message_ids_pkey, changes_pkey.
SELECT {schema}.take_in_one(
    %(version)s, %(message_id)s, %(type)s, %(location)s, %(content_type)s, %(context)s, %(property_types)s, %(body)b,
    %(visible_at)s::timestamptz, %(delay)s::interval,
    %(queue_id)s, %(group_key)s, %(sequence)s, %(size)s, %(priority)s, %(subscription_ids)s::integer[], %(by_itself)s,
    %(flushed)s
)
