-- Purpose: the columns of `place`, a row of message_places.
place.message_id, place.type, place.location, place.epoch, place.number, place.queue, place.group_key AS "group", place.status,
place.reason, place.sequence, place.ordinal, place.priority, place.attempt, nullif(place.visible_at, 'infinity') AS visible_at,
place.waits, place.subscriptions, place.received_at, place.since, place.body_bytes, place.parts, place.id_space
