-- The next number of each location's dispenser; how many of its messages are in queues (`in_queue`); and through
-- which ticket none is any more: `last_sent` of `last_sent_epoch`, NULL before the first. It is computed from the
-- entries, so that a receiver moves both, in its transaction, without a row that all would have to lock.
CREATE OR REPLACE VIEW {schema}.dispensers AS
SELECT
    place.location,
    coalesce(newest.epoch + newest.taken / place.last_number, 0) AS epoch,
    coalesce(newest.taken % place.last_number + 1, 1) AS next_number,
    place.last_number,
    CASE WHEN mark.sent >= 0 THEN div(mark.sent, place.last_number)::bigint END AS last_sent_epoch,
    CASE WHEN mark.sent >= 0 THEN (mark.sent % place.last_number + 1)::bigint END AS last_sent,
    coalesce(waiting.messages, 0) AS in_queue
FROM {schema}.locations AS place
LEFT JOIN LATERAL (
    SELECT run.epoch, run.number - 1 + run.count AS taken
    FROM {schema}.tickets AS run WHERE run.location = place.location
    ORDER BY run.epoch DESC, run.number DESC LIMIT 1
) AS newest ON TRUE
LEFT JOIN (
    SELECT
        run.location,
        sum(arrived.messages)::bigint AS messages,
        min(run.epoch::numeric * start.last_number + run.number - 1 + arrived.first) AS oldest
    FROM (
        -- By arrival, which an index has in order: neither all messages nor all tickets are sorted.
        SELECT arrival_id, count(DISTINCT position) AS messages, min(position) AS first
        FROM (
            SELECT arrival_id, position FROM {schema}.entries
            UNION ALL
            SELECT arrival_id, position FROM {schema}.to_route
        ) AS message
        GROUP BY arrival_id
    ) AS arrived
    JOIN {schema}.tickets AS run USING (arrival_id)
    JOIN {schema}.locations AS start USING (location)
    GROUP BY run.location
) AS waiting ON waiting.location = place.location
CROSS JOIN LATERAL (
    SELECT coalesce(
        waiting.oldest, newest.epoch::numeric * place.last_number + newest.taken, 0
    ) - 1 AS sent
) AS mark;
