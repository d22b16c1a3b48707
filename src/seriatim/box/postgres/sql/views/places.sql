-- Purpose: the places of messages, oldest first: a row for each queue that has one, and for an unrouted one; with the
-- error at which its handler failed last in that queue. Only the page's are looked up with all of their columns.
-- Index: entries_of_group, aside_of_group, history_of_group where a queue is given, and their indexes by message where
-- an id is; faults_of_message, entries_of_message, spool_pkey; otherwise all of it is read.
WITH page AS MATERIALIZED (
    SELECT place.arrival_id, place.position, place.queue, place.status, place.stamp, place.serial
    FROM {schema}.message_places AS place
    {last_fault()}
    WHERE {place_fits()}
    ORDER BY place.stamp, place.serial, place.queue
    LIMIT %(limit)s
)
SELECT
    {place_columns()}, failed.error, later.postponed, later.postponed_until
FROM page CROSS JOIN LATERAL (
    SELECT * FROM {schema}.message_places AS one
    WHERE one.arrival_id = page.arrival_id AND one.position = page.position
        AND one.queue IS NOT DISTINCT FROM page.queue AND one.status = page.status LIMIT 1
) AS place
{last_fault()}
{postponement(page)}
ORDER BY page.stamp, page.serial, page.queue
