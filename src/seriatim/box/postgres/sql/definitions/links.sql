-- Purpose: the links of the box, with their definitions.
-- Caller: links.py, under the lock of the definitions, and whoever lists them.
-- Locks: none.
-- Index: links_link_key.
SELECT link AS name, definition::text AS definition FROM {schema}.links ORDER BY link
