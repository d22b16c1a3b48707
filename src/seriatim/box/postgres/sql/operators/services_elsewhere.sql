-- Purpose: the services of other boxes: those that are declared here, and those as which other boxes may speak here.
-- Index: none; the tables are small.
SELECT known.service::text AS service FROM {schema}.known_services AS known WHERE known.queue_id IS NULL
UNION SELECT unnest(one.services) FROM {schema}.known_links AS one
