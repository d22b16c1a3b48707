-- Purpose: nobody takes numbers of a location until the transaction ends; what is read after this sees all that were.
-- Caller: drop.py and define.py.
-- Locks: the location's advisory lock; waits for whoever is numbering there.
-- Index: none.
SELECT {schema}.take_lock({schema}.location_lock(%(location)s), format('the location "%%s"', %(location)s::text))
