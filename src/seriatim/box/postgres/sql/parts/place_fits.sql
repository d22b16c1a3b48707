-- Purpose: `place`, a row of message_places, and `failed`, see `last_fault`, fit a command's filter.
(%(queue)s::text IS NULL OR place.queue = %(queue)s)
AND (%(group)s::text IS NULL OR place.group_key = %(group)s)
AND (%(status)s::text IS NULL OR place.status = %(status)s)
AND (%(message_type)s::text IS NULL OR place.type = %(message_type)s)
AND (%(message_id)s::text IS NULL OR place.message_id = %(message_id)s)
AND {in_time(place.received_at)}
AND {is_of_wanted(place)}
AND (%(error)s::text IS NULL OR place.reason ILIKE %(error)s OR failed.error ILIKE %(error)s)
