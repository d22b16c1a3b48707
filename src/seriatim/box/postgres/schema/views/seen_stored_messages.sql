CREATE OR REPLACE VIEW {schema}.seen_stored_messages WITH (security_barrier) AS
SELECT
    stored.arrival_id,
    stored.position,
    stored.message_id,
    stored.id_space,
    stored.type,
    run.location,
    run.epoch + (run.number - 1 + stored.position) / place.last_number AS epoch,
    (run.number - 1 + stored.position) % place.last_number + 1 AS number,
    run.stamp,
    coalesce(stored.serial, stored.arrival_id + stored.position) AS serial,
    stored.content_type,
    stored.received_at,
    stored.context,
    stored.property_types,
    stored.body,
    stored.destinations,
    stored.parts
FROM {schema}.seen_spool AS stored
JOIN {schema}.tickets AS run USING (arrival_id)
JOIN {schema}.locations AS place USING (location);
