-- Purpose: parts that no merge will request: of repeated tasks of this writer, and of writers that are gone.
-- Index: parts_of_writer, parts_by_age.
SELECT part_id FROM {schema}.parts WHERE writer = %(writer)s AND batch <= %(batch)s
UNION
SELECT part_id FROM {schema}.parts WHERE staged_at < now() - interval '1 day'
