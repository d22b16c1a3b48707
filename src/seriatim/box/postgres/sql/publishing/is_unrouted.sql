-- Purpose: does something that was published through SQL wait to be routed? NULL: it does, and this role may not do it.
-- Caller: sql_arrivals.py.
-- Locks: none.
-- Index: to_route_of_transaction.
SELECT {schema}.is_unrouted(%(settled)s::xid8, %(unsettled)s::xid8[]) AS unrouted
