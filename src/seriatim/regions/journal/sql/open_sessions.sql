-- Note sessions that aren't known, and aren't below the key before which all are over. What was published before the queue's `forgotten_before` is too old for them.
INSERT INTO {schema}.sessions (
    name, queue, session, done_through, sent_through, state, version, forgotten_before, take_overs, conflicts, used_at
)
SELECT
    queue.name, queue.queue, asked.session, queue.start - queue.increment, queue.start - queue.increment,
    {session.IDLE}, 0,
    queue.forgotten_before, 0, 0, {STATEMENT_US}
FROM unnest(%(sessions)s::text[]) AS asked (session)
CROSS JOIN {schema}.queues AS queue
WHERE queue.name = %(name)s AND queue.queue = %(queue)s
    AND (queue.over_before IS NULL OR asked.session COLLATE "C" >= queue.over_before COLLATE "C")
ORDER BY asked.session
ON CONFLICT (name, queue, session) DO NOTHING
