-- Purpose: an arrival for what a part has from a location; it gets its ticket when the part is merged.
-- Locks: none beyond the row.
-- Index: staged_arrivals_pkey.
INSERT INTO {schema}.staged_arrivals (arrival_id, part_id, location, count)
VALUES (nextval('{schema}.arrival_ids'), %(part_id)s, %(location)s, 0) RETURNING arrival_id
