-- Purpose: the next messages that were published through SQL and wait to be routed, in order of commit.
-- Caller: sql_arrivals.py, first in its transaction.
-- Locks: an advisory lock of the box, until the transaction ends: one at a time routes. Nobody else waits for it.
-- Index: to_route_of_transaction, to_route_in_order, spool_pkey.
SELECT arrival_id, position, message_id, type, content_type, context, body, received_at, publisher, permitted
FROM {schema}.pending(%(at_most)s, %(at_most_bytes)s, %(settled)s::xid8, %(unsettled)s::xid8[])
