-- Purpose: the messages of an id, the newest of each id space, with their bodies, and where their parts are.
-- Caller: message_places.py.
-- Locks: none.
-- Index: none by id where it has been forgotten; the spool is read. Once a look, by a person.
SELECT DISTINCT ON (stored.id_space)
    stored.message_id,
    stored.type,
    run.location,
    run.epoch + (run.number - 1 + stored.position) / place.last_number AS epoch,
    (run.number - 1 + stored.position) %% place.last_number + 1 AS number,
    stored.content_type,
    stored.context::text,
    stored.property_types,
    stored.body,
    stored.received_at,
    stored.parts,
    stored.id_space,
    stored.arrival_id,
    stored.position
FROM {schema}.spool AS stored
JOIN {schema}.tickets AS run USING (arrival_id)
JOIN {schema}.locations AS place USING (location)
WHERE stored.message_id = %(message_id)s AND (%(id_space)s::text IS NULL OR stored.id_space = %(id_space)s)
ORDER BY stored.id_space, stored.arrival_id DESC
