-- Purpose: take a location's next numbers at once.
-- Caller: Session.dispense.
-- Locks: the location's advisory lock, until the transaction ends.
-- Index: locations_pkey, tickets_pkey (backwards, one row).
SELECT epoch, number, last_number FROM {schema}.take_numbers(%(location)s, %(count)s)
