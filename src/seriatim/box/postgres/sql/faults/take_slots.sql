-- Purpose: take places that a queue has for readers, those of these that nobody has, for as long as the connection lasts.
-- Caller: reader_places.py, which has none of them.
-- Locks: an advisory lock of the schema, the queue and the place for each, of the session; nobody waits for it.
-- Index: none.
SELECT slot FROM {schema}.take_slots(%(queue_id)s, %(slots)s::integer[]) AS slot
