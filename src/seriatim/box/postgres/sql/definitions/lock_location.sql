-- Purpose: nobody takes numbers of a location until the transaction ends; what is read after this sees all that were.
-- Locks: the location's advisory lock; waits for whoever is numbering there.
SELECT {schema}.take_lock({schema}.location_lock(%(location)s), format('the location "%%s"', %(location)s::text))
