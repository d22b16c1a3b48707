-- The newest entries of a session.
SELECT
    entry.number, entry.first_number, entry.state, entry.message_id, entry.attempts, entry.due_at, entry.fault,
    entry.changed_at, entry.number <= known.done_through AS is_over
FROM {schema}.entries AS entry
JOIN {schema}.sessions AS known
    ON known.name = entry.name AND known.queue = entry.queue AND known.session = entry.session
WHERE entry.name = %(name)s AND entry.queue = %(queue)s AND entry.session = %(session)s
ORDER BY entry.number DESC
LIMIT %(most)s
