-- Purpose: how many messages there are by the error at which their handlers failed last, or by the reason if none failed; those
-- without either aren't counted; the most frequent first; filtered as places.sql.
-- Index: as places.sql.
SELECT
    coalesce(failed.error_class, reason) AS error, count(*) AS count,
    (array_agg(failed.told ORDER BY coalesce(failed.at, since) DESC))[1] AS example,
    max(coalesce(failed.at, since)) AS last
FROM {schema}.message_places AS place
{last_fault()}
WHERE {place_fits()}
    AND coalesce(failed.error_class, reason) IS NOT NULL
GROUP BY 1
ORDER BY count(*) DESC, 1
LIMIT %(limit)s
