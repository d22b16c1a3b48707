-- Purpose: keep others from taking numbers of a location until the transaction ends; later reads see all numbers that
-- were taken.
-- Locks: the location's advisory lock; waits for a transaction that is numbering there.
SELECT {schema}.take_lock({schema}.location_lock(%(location)s), format('the location "%%s"', %(location)s::text))
