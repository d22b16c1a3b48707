-- The places of each message: a row for each queue that has it, or had it and keeps it, or one if it is unrouted.
-- `status`: arrived, held, queued, in_hand, faulted; late, duplicate, invalid, rejected, dead; done; unrouted. A
-- result in a gate that waits for its place to be closed is held there. `since`: in that status, if known. `waits`:
-- only subscriptions that aren't started have collected it.
CREATE OR REPLACE VIEW {schema}.message_places AS
SELECT
    stored.message_id,
    stored.type,
    run.location,
    run.epoch + (run.number - 1 + place.position) / start.last_number AS epoch,
    (run.number - 1 + place.position) % start.last_number + 1 AS number,
    queue.queue,
    place.group_key,
    place.status,
    place.reason,
    place.sequence,
    place.ordinal,
    place.priority,
    place.attempt,
    place.visible_at,
    EXISTS (
        SELECT FROM {schema}.known_subscriptions AS one WHERE one.subscription_id = ANY (place.subscription_ids)
    ) AND NOT EXISTS (
        SELECT FROM {schema}.known_subscriptions AS one
        WHERE one.subscription_id = ANY (place.subscription_ids) AND one.state = 'started'
    ) AS waits,
    ARRAY(
        SELECT one.subscription::text FROM {schema}.known_subscriptions AS one
        WHERE one.subscription_id = ANY (place.subscription_ids) ORDER BY 1
    ) AS subscriptions,
    stored.received_at,
    place.since,
    length(stored.body) AS body_bytes,
    run.stamp,
    coalesce(stored.serial, place.arrival_id + place.position) AS serial,
    place.arrival_id,
    place.position,
    place.arrival,
    coalesce(stored.parts, 0) AS parts,
    stored.id_space
FROM (
    SELECT
        arrival_id, position, queue_id, group_key,
        CASE status WHEN 'placed' THEN 'held' ELSE status::text END AS status,
        CASE status WHEN 'placed' THEN 'place_open' END AS reason, sequence, ordinal, priority, attempt,
        visible_at, subscription_ids, arrival, NULL::timestamptz AS since
    FROM {schema}.entries
    UNION ALL
    SELECT
        arrival_id, position, queue_id, group_key, disposition, reason, sequence, ordinal, priority, attempt,
        NULL, subscription_ids, NULL, aside_at
    FROM {schema}.aside
    UNION ALL
    SELECT
        arrival_id, position, queue_id, group_key, 'done', NULL, sequence, ordinal, NULL, attempt,
        NULL, subscription_ids, NULL, done_at
    FROM {schema}.history
    UNION ALL
    SELECT
        arrival_id, position, NULL, NULL, 'unrouted', problem, NULL, NULL, NULL, 0, NULL, '{}'::integer[], NULL,
        unrouted_at
    FROM {schema}.unrouted
) AS place
JOIN {schema}.spool AS stored USING (arrival_id, position)
JOIN {schema}.tickets AS run USING (arrival_id)
JOIN {schema}.locations AS start USING (location)
LEFT JOIN {schema}.queues AS queue USING (queue_id);
