-- The columns of a stored message with the number of its ticket, and their sources; {0}: the table of stored
-- messages.
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
FROM {schema}.{0} AS stored
JOIN {schema}.tickets AS run USING (arrival_id)
JOIN {schema}.locations AS place USING (location)
