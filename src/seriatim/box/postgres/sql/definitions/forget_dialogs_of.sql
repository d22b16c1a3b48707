-- Purpose: forget the dialogs of a service, all of which are closed.
-- Caller: services.py, before it is dropped, or gets another queue.
-- Locks: their rows.
-- Index: none; it is seldom done.
DELETE FROM {schema}.endpoints WHERE service = %(service)s AND state = 'CD'
