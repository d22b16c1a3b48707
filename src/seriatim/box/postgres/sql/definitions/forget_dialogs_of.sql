-- Purpose: forget the dialogs of a service, all of which are closed.
-- Locks: their rows.
-- Index: none; it is seldom done.
DELETE FROM {schema}.endpoints WHERE service = %(service)s AND state = 'CD'
