-- Purpose: take a location away that has given no number. Answers with no row where it has, or isn't there.
-- Caller: drop.py.
-- Locks: the location's row; whoever is numbering there is waited for, and then refuses it by the foreign key.
-- Index: locations_pkey, tickets_pkey.
DELETE FROM {schema}.locations AS place
WHERE location = %(name)s AND NOT EXISTS (SELECT FROM {schema}.tickets AS run WHERE run.location = place.location)
RETURNING location
