-- Purpose: drop a location that has given no number. No row if it has, or doesn't exist.
-- Locks: the location's row.
-- Index: locations_pkey, tickets_pkey.
DELETE FROM {schema}.locations AS place
WHERE location = %(name)s AND NOT EXISTS (SELECT FROM {schema}.tickets AS run WHERE run.location = place.location)
RETURNING location
