-- Purpose: the links of the box, with their definitions.
-- Index: links_link_key.
SELECT link AS name, definition::text AS definition FROM {schema}.known_links ORDER BY link
