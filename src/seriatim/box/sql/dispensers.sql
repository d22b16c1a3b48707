-- Purpose: what each location's dispenser gives next.
-- Caller: status.py.
-- Locks: none.
-- Index: tickets_pkey, one row a location.
SELECT location, epoch, next_number, last_number FROM {schema}.dispensers ORDER BY location
