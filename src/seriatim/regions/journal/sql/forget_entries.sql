-- Forget what is known of the numbers of forgotten sessions.
DELETE FROM {schema}.entries AS entry
USING unnest(%(queues)s::text[], %(sessions)s::text[]) AS old (queue, session)
WHERE entry.name = %(name)s AND entry.queue = old.queue AND entry.session = old.session
