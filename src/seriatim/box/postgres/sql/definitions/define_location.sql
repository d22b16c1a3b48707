-- Purpose: make a location, or change the last number of one that has given none yet.
-- Locks: the location's row, until the transaction ends.
-- Index: locations_pkey, tickets_pkey.
INSERT INTO {schema}.locations AS place (location, last_number) VALUES (%(location)s, %(last_number)s)
ON CONFLICT (location) DO UPDATE SET last_number = excluded.last_number
WHERE place.last_number = excluded.last_number
    OR NOT EXISTS (SELECT FROM {schema}.tickets AS run WHERE run.location = place.location)
RETURNING last_number
