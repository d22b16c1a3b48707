-- Purpose: as publish.sql, for one message without parts.
-- Caller: Session.publish.
-- Locks: none beyond its own rows, and the location's numbers where the commit follows at once. Two transactions with the
-- same message id wait for each other on it.
-- Index: message_ids_pkey, changes_pkey.
SELECT {schema}.take_in_one(
    %(version)s, %(message_id)s, %(type)s, %(location)s, %(content_type)s, %(context)s, %(property_types)s, %(body)b,
    %(problem)s, %(visible_at)s::timestamptz, %(delay)s::interval,
    %(entry_queues)s::integer[], %(entry_groups)s::text[], %(entry_sequences)s::bigint[], %(entry_sizes)s::bigint[],
    %(entry_priorities)s::integer[], %(entry_problems)s::text[], %(entry_subscriptions)s::text[], %(by_itself)s
)
