-- Purpose: `letter`, a row of aside, `place`, its queue, and `fault`, see `letters`, fit a command's filter of dead
-- letters.
letter.disposition = 'dead'
AND (%(entry_ids)s::bigint[] IS NULL OR letter.entry_id = ANY (%(entry_ids)s::bigint[]))
AND (%(queue)s::text IS NULL OR place.queue = %(queue)s)
AND (%(key)s::text IS NULL OR letter.group_key LIKE %(key)s)
AND (%(older_than)s::interval IS NULL OR letter.aside_at < clock_timestamp() - %(older_than)s::interval)
AND {in_time(letter.aside_at)}
AND {is_of_wanted(letter)}
AND (%(error_class)s::text IS NULL OR coalesce(fault.error_class, letter.reason) = %(error_class)s)
AND (%(error)s::text IS NULL OR letter.reason ILIKE %(error)s OR fault.told ILIKE %(error)s)
