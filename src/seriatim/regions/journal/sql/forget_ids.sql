-- Forget the ids of numbers that have been over for long; that they are over stays known.
DELETE FROM {schema}.entries AS entry
USING (
    SELECT one.queue, one.session, one.number
    FROM {schema}.entries AS one
    JOIN {schema}.sessions AS known
        ON known.name = one.name AND known.queue = one.queue AND known.session = one.session
    WHERE one.name = %(name)s AND one.number <= known.done_through AND one.changed_at <= {STATEMENT_US} - %(forget_after)s::bigint
    LIMIT %(most)s
) AS old
WHERE entry.name = %(name)s AND entry.queue = old.queue AND entry.session = old.session AND entry.number = old.number
