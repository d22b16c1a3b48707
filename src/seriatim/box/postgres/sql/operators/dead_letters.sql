-- Purpose: dead letters in the order in which their queues took them in, a page of them, or those up to a number (`upto`); of one queue,
-- pattern of keys, age, time, property or text, or some of them by their numbers.
-- Index: aside_dead, aside_pkey, faults_of_entry; spool_pkey for those that fit.
SELECT
    letter.entry_id, letter.queue, letter.group_key AS "group", stored.message_id, stored.type, letter.sequence,
    letter.ordinal, letter.attempt, letter.reason, letter.error, letter.aside_at, stored.received_at
FROM (
    SELECT letter.*, place.queue, fault.told AS error
    FROM {letters()}
    WHERE {letter_fits()}
        AND letter.entry_id > %(after)s
        AND (%(upto)s::bigint IS NULL OR letter.entry_id <= %(upto)s::bigint)
    ORDER BY letter.entry_id
    LIMIT %(limit)s
) AS letter
CROSS JOIN LATERAL (
    SELECT * FROM {schema}.spool AS one WHERE one.arrival_id = letter.arrival_id AND one.position = letter.position LIMIT 1
) AS stored
ORDER BY letter.entry_id
