-- What is known of all sessions of a name, behind one of them, by their keys.
SELECT queue, session, sent_through, done_through
FROM {schema}.sessions
WHERE name = %(name)s AND (queue, session) > (%(queue)s, %(session)s)
ORDER BY queue, session
LIMIT %(most)s
