-- How many sessions below a key are worked on, stand, or have numbers of messages that aren't over; counted up to 1,000.
SELECT count(*) AS sessions FROM (
    SELECT 1 AS one FROM {schema}.sessions AS known
    JOIN {schema}.queues AS queue ON queue.name = known.name AND queue.queue = known.queue
        AND (queue.over_before IS NULL OR known.session COLLATE "C" >= queue.over_before COLLATE "C")
    WHERE known.name = %(name)s AND known.queue = %(queue)s AND known.session COLLATE "C" < %(before)s COLLATE "C"
        AND (known.state <> {session.IDLE} OR EXISTS (
            SELECT 1 FROM {schema}.entries AS entry
            WHERE entry.name = known.name AND entry.queue = known.queue AND entry.session = known.session
                AND entry.number > known.done_through AND entry.state NOT IN ({entry.SKIPPED}, {entry.VOID})
                AND (entry.state <> {entry.RESERVED} OR entry.due_at > {STATEMENT_US})
        ))
    LIMIT 1000
) AS found
