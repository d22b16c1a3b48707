-- Forget sessions that are idle, unused for long, and of which nothing as old as their last use is left; the rows in the order of their keys.
WITH gone AS (
    DELETE FROM {schema}.sessions AS known
    USING (
        SELECT one.name, one.queue, one.session
        FROM {schema}.sessions AS one
        WHERE one.name = %(name)s AND (one.queue, one.session) > (%(after_queue)s, %(after_session)s)
            AND one.state = {session.IDLE} AND one.used_at <= {STATEMENT_US} - %(forget_after)s::bigint
            AND one.used_at < %(watermark)s::bigint
            AND NOT EXISTS (
                SELECT 1 FROM {schema}.entries AS entry
                WHERE entry.name = one.name AND entry.queue = one.queue AND entry.session = one.session
                    AND entry.number > one.done_through
            )
        ORDER BY one.queue, one.session
        LIMIT %(most)s
    ) AS old
    WHERE known.name = old.name AND known.queue = old.queue AND known.session = old.session
        AND known.state = {session.IDLE} AND known.used_at <= {STATEMENT_US} - %(forget_after)s::bigint
        AND known.used_at < %(watermark)s::bigint
    RETURNING known.queue, known.session, known.version, known.used_at
)
SELECT queue, session, version, used_at FROM gone ORDER BY queue, session
