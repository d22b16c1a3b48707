-- Purpose: the locations, and after which number each turns over.
-- Index: none; the table is small and read whole.
SELECT
    place.location, place.last_number,
    EXISTS (SELECT FROM {schema}.tickets AS run WHERE run.location = place.location) AS used
FROM {schema}.locations AS place ORDER BY place.location
