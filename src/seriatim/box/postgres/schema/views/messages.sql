-- The messages that the box has, each with its ticket. Reads without locks.
CREATE OR REPLACE VIEW {schema}.messages AS
SELECT
    stored.message_id,
    stored.type,
    run.location,
    run.epoch + (run.number - 1 + stored.position) / place.last_number AS epoch,
    (run.number - 1 + stored.position) % place.last_number + 1 AS number,
    stored.content_type,
    stored.context,
    stored.body,
    stored.received_at,
    coalesce(stored.parts, 0) AS parts,
    stored.id_space
FROM {schema}.spool AS stored
JOIN {schema}.tickets AS run USING (arrival_id)
JOIN {schema}.locations AS place USING (location);
