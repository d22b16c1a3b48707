-- The numbers that messages have in their sessions.
SELECT entry.session, entry.message_id, max(entry.number) AS number
FROM {schema}.entries AS entry
WHERE entry.name = %(name)s AND entry.queue = %(queue)s AND entry.session = ANY(%(sessions)s::text[])
    AND entry.message_id = ANY(%(ids)s::text[])
GROUP BY entry.session, entry.message_id
