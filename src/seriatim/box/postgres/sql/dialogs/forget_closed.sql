-- Purpose: forget sides of dialogs that have been closed for so long.
-- Caller: clock.py.
-- Locks: their rows.
-- Index: endpoints_closed; those of the tables that go with them.
SELECT {schema}.forget_closed(%(older_than)s::interval)
