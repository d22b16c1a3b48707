-- The places of each message: a row for each queue that has it, or had it and keeps it, or one if it is unrouted.
-- `status`: arrived, held, queued, in_hand, faulted; late, duplicate, invalid, rejected, dead; done; unrouted. A
-- result in a gate that waits for its place to be closed is held there; the message at which a group stands still,
-- because its handler failed for good, is faulted. `since`: in that status, if known. `waits`: only subscriptions that
-- aren't started have collected it.
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
        entry.arrival_id, entry.position, entry.queue_id, entry.group_key,
        CASE
            WHEN entry.status = 'placed' THEN 'held'
            WHEN entry.status = 'queued' AND entry.entry_id = stopped.entry_id THEN 'faulted'
            ELSE entry.status::text
        END AS status,
        CASE entry.status WHEN 'placed' THEN 'place_open' END AS reason, entry.sequence, entry.ordinal, entry.priority,
        entry.attempt, entry.visible_at, entry.subscription_ids, entry.arrival, NULL::timestamptz AS since
    FROM {schema}.entries AS entry
    -- A join, because the planner would count a look for each entry: what it does for those few that are wanted then costs
    -- nothing in comparison, and it reads the whole spool for each.
    LEFT JOIN LATERAL (
        -- Where faults aren't kept, the first one.
        SELECT coalesce(
            (
                SELECT one.entry_id FROM {schema}.faults AS one
                WHERE one.queue_id = known.queue_id AND one.group_key = known.group_key
                ORDER BY one.fault_id DESC LIMIT 1
            ), (
                SELECT one.entry_id FROM {schema}.entries AS one
                WHERE one.queue_id = known.queue_id AND one.group_key = known.group_key AND one.status = 'queued'
                ORDER BY one.ordinal LIMIT 1
            )
        ) AS entry_id
        FROM {schema}.known_groups AS known
        WHERE known.queue_id = entry.queue_id AND known.group_key = entry.group_key
            AND known.flags & {flag.FAULTED} <> 0
    ) AS stopped ON TRUE
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
