-- Purpose: is a dialog's timer due, or its lifetime over?
-- Caller: clock.py.
-- Locks: none.
-- Index: endpoints_due.
SELECT {schema}.is_due()
