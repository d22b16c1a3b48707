-- Purpose: the law of the spool: every reference has its message, every message its ticket, and a message without any
-- reference is noted for the clean-up; an entry that says when it was committed says what its ticket says, and its
-- place in its transaction is that of its message. Return the violations; there must be none.
-- Index: none; all of it is read, and hashed.
WITH referred AS (
    SELECT 'entries' AS place, arrival_id, position FROM {schema}.entries
    UNION ALL
    SELECT 'aside', arrival_id, position FROM {schema}.aside
    UNION ALL
    SELECT 'history', arrival_id, position FROM {schema}.history
    UNION ALL
    SELECT 'unrouted', arrival_id, position FROM {schema}.unrouted
    UNION ALL
    SELECT 'to_route', arrival_id, position FROM {schema}.to_route
    UNION ALL
    SELECT 'replies', arrival_id, position FROM {schema}.replies
    UNION ALL
    SELECT 'region_numbers', arrival_id, position FROM {schema}.region_numbers WHERE beside
)
(
    SELECT 'a row of ' || place || ' refers to a message that is not there' AS problem, arrival_id, position
    FROM referred LEFT JOIN {schema}.spool AS stored USING (arrival_id, position)
    WHERE stored.message_id IS NULL LIMIT %(most)s
) UNION ALL (
    SELECT 'a message that nothing refers to', stored.arrival_id, stored.position
    FROM {schema}.spool AS stored
    LEFT JOIN (
        SELECT arrival_id, position, TRUE AS found FROM referred
        UNION ALL
        SELECT arrival_id, position, TRUE FROM {schema}.dropped
    ) AS known USING (arrival_id, position)
    WHERE known.found IS NULL
        -- What a pipeline has staged, and not merged yet.
        AND NOT EXISTS (SELECT FROM {schema}.staged_arrivals AS open WHERE open.arrival_id = stored.arrival_id)
    LIMIT %(most)s
) UNION ALL (
    SELECT 'a message without a ticket', stored.arrival_id, stored.position
    FROM {schema}.spool AS stored LEFT JOIN {schema}.tickets AS run USING (arrival_id)
    WHERE run.location IS NULL
        -- Another audit covers messages that a tick numbers.
        AND NOT EXISTS (SELECT FROM {schema}.arrivals AS one WHERE one.arrival_id = stored.arrival_id)
        AND NOT EXISTS (SELECT FROM {schema}.staged_arrivals AS open WHERE open.arrival_id = stored.arrival_id)
    LIMIT %(most)s
) UNION ALL (
    SELECT 'an entry with a place in the order of commit that its ticket has not', entry.arrival_id, entry.position
    FROM {schema}.entries AS entry
    JOIN {schema}.tickets AS run USING (arrival_id)
    JOIN {schema}.spool AS stored USING (arrival_id, position)
    WHERE entry.stamp <> run.stamp OR entry.serial <> coalesce(stored.serial, arrival_id + position) LIMIT %(most)s
)
