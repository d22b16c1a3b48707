-- Purpose: does something that was published through SQL wait to be routed? NULL: it does, and this role may not do it.
-- Caller: pending.py.
-- Locks: none.
-- Index: to_route_pkey; the table is next to empty.
SELECT {schema}.is_unrouted() AS unrouted
