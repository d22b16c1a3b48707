-- Note sessions that aren't known. What was published before the queue's `forgotten_before` is too old for them.
-- Caller: locked.py. Locks: waits for a transaction that forgets or notes the same sessions. Index: the key.
INSERT INTO {schema}.sessions (
    name, queue, session, done_through, sent_through, state, version, forgotten_before, take_overs, conflicts, used_at
)
SELECT
    found.name, found.queue, found.session, found.done_through, found.done_through, 0, 0, found.forgotten_before, 0, 0,
    {now}
FROM (
    SELECT
        queue.name, queue.queue, asked.session, queue.forgotten_before,
        greatest(queue.start - queue.increment, asked.over_through) AS done_through
    FROM unnest(%(sessions)s::text[], %(over)s::bigint[]) AS asked (session, over_through)
    CROSS JOIN {schema}.queues AS queue
    WHERE queue.name = %(name)s AND queue.queue = %(queue)s
) AS found
ORDER BY found.session
ON CONFLICT (name, queue, session) DO NOTHING
