-- Purpose: take a location away that has given no number. Answers with no row where it has, or isn't there.
-- Locks: the location's row.
-- Index: locations_pkey, tickets_pkey.
DELETE FROM {schema}.locations AS place
WHERE location = %(name)s AND NOT EXISTS (SELECT FROM {schema}.tickets AS run WHERE run.location = place.location)
RETURNING location
