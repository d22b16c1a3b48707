-- Forget sessions below the key before which all of the queue are over.
WITH gone AS (
    DELETE FROM {schema}.sessions AS known
    USING (
        SELECT one.name, one.queue, one.session
        FROM {schema}.sessions AS one
        JOIN {schema}.queues AS queue ON queue.name = one.name AND queue.queue = one.queue
        WHERE one.name = %(name)s AND one.queue = %(queue)s
            AND one.session COLLATE "C" < queue.over_before COLLATE "C"
        ORDER BY one.session
        LIMIT %(most)s
    ) AS old
    WHERE known.name = old.name AND known.queue = old.queue AND known.session = old.session
    RETURNING known.queue, known.session
)
SELECT queue, session FROM gone
