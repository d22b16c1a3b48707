-- Purpose: how many dead letters there are by the error at which their handlers failed last, or by the reason if none failed;
-- the most frequent first; filtered as dead_letters.sql.
-- Index: aside_dead, aside_pkey, faults_of_entry; spool_pkey where properties are asked for.
SELECT
    coalesce(fault.error_class, letter.reason) AS error, count(*) AS count,
    (array_agg(fault.error ORDER BY letter.aside_at DESC))[1] AS example, max(letter.aside_at) AS last
FROM {letters()}
WHERE {letter_fits()}
GROUP BY 1
ORDER BY count(*) DESC, 1
LIMIT %(limit)s
