-- Changing what is defined while messages come, routing again what no subscription wanted, and what people look at.
-- {schema} is the name of the box.

-- See that nobody has published, and not committed yet, by what is about to go; and that nobody begins to until this
-- transaction ends. FALSE where that took too long: then publishers go on.
CREATE FUNCTION {schema}.hold_publishers(patience_ms integer) RETURNS boolean
LANGUAGE plpgsql
AS $function$
DECLARE
    before text := current_setting('lock_timeout');
BEGIN
    PERFORM set_config('lock_timeout', patience_ms::text, TRUE);
    PERFORM pg_advisory_xact_lock(hashtextextended('seriatim publishers', '{schema}'::regnamespace::oid::bigint));
    PERFORM set_config('lock_timeout', before, TRUE);
    RETURN TRUE;
EXCEPTION WHEN lock_not_available THEN
    RETURN FALSE;
END
$function$;

-- Put messages that were unrouted into queues. Answers FALSE, and does nothing, if the definitions have changed since
-- `known_version`. The arrays are those of `enter`; the caller has locked the rows of `unrouted`.
CREATE FUNCTION {schema}.route_again(
    known_version bigint, arrival_ids bigint[], positions bigint[], new_contexts text[], new_property_types text[],
    destinations integer[], problems text[],
    entry_places bigint[], entry_queues integer[], entry_groups text[], entry_sequences bigint[],
    entry_sizes bigint[], entry_priorities integer[], entry_problems text[], entry_subscriptions text[],
    entry_waits boolean[]
) RETURNS boolean
LANGUAGE plpgsql
AS $function$
BEGIN
    PERFORM {schema}.hold_definitions();
    IF known_version <> (SELECT max(version) FROM {schema}.changes) THEN
        RETURN FALSE;
    END IF;
    -- Those that nobody wants now either are entered there again, with what is wrong with them now.
    DELETE FROM {schema}.unrouted AS known
    USING unnest(arrival_ids, positions) AS message (arrival_id, position)
    WHERE known.arrival_id = message.arrival_id AND known.position = message.position;
    UPDATE {schema}.spool AS stored
    SET context = message.context::jsonb, property_types = message.property_types::jsonb, destinations = message.queues
    FROM unnest(arrival_ids, positions, new_contexts, new_property_types, route_again.destinations)
        AS message (arrival_id, position, context, property_types, queues)
    WHERE stored.arrival_id = message.arrival_id AND stored.position = message.position AND message.queues > 0;
    PERFORM {schema}.enter(
        arrival_ids, positions, destinations, problems, NULL, entry_places, entry_queues, entry_groups,
        entry_sequences, entry_sizes, entry_priorities, entry_problems, entry_subscriptions, entry_waits
    );
    UPDATE {schema}.entries AS entry SET visible_at = stored.visible_at
    FROM unnest(arrival_ids, positions) AS message (arrival_id, position)
    JOIN {schema}.spool AS stored USING (arrival_id, position)
    WHERE entry.arrival_id = message.arrival_id AND entry.position = message.position
        AND stored.visible_at > clock_timestamp();
    RETURN TRUE;
END
$function$;

-- What each queue has, and what it has set aside. `in_hand`: of a pipeline; what a worker has is counted as it was
-- before. `oldest`: when the one came that has been there longest.
CREATE VIEW {schema}.queue_counts AS
SELECT
    place.queue,
    place.definition -> 'policy' ->> 'name' AS policy,
    place.enabled,
    place.owner,
    entry.arrived,
    entry.held,
    entry.queued,
    entry.in_hand,
    aside.late,
    aside.duplicate,
    aside.invalid,
    aside.rejected,
    aside.dead,
    to_timestamp(entry.oldest_us / 1e6) AS oldest
FROM {schema}.queues AS place
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE status = 'arrived') AS arrived,
        count(*) FILTER (WHERE status = 'held') AS held,
        count(*) FILTER (WHERE status = 'queued') AS queued,
        count(*) FILTER (WHERE status = 'in_hand') AS in_hand,
        min(rank + (priority - 5) * 10000000) AS oldest_us
    FROM {schema}.entries AS one WHERE one.queue_id = place.queue_id
) AS entry
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE disposition = 'late') AS late,
        count(*) FILTER (WHERE disposition = 'duplicate') AS duplicate,
        count(*) FILTER (WHERE disposition = 'invalid') AS invalid,
        count(*) FILTER (WHERE disposition = 'rejected') AS rejected,
        count(*) FILTER (WHERE disposition = 'dead') AS dead
    FROM {schema}.aside AS one WHERE one.queue_id = place.queue_id
) AS aside;

-- Who wants which messages, by name.
CREATE VIEW {schema}.subscription_states AS
SELECT
    one.subscription,
    place.queue,
    one.state,
    one.definition ->> 'state' AS declared_state,
    one.definition ->> 'where' AS filter
FROM {schema}.subscriptions AS one JOIN {schema}.queues AS place USING (queue_id);

-- Where each message is: a row for each queue that has it, or had it and keeps it, or for nobody having wanted it.
-- `status`: arrived, held, queued, in_hand; late, duplicate, invalid, rejected, dead; done; unrouted. `since`: in that status,
-- as far as that is known. `waits`: only subscriptions that aren't started have collected it.
CREATE VIEW {schema}.message_places AS
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
        SELECT FROM {schema}.subscriptions AS one WHERE one.subscription_id = ANY (place.subscription_ids)
    ) AND NOT EXISTS (
        SELECT FROM {schema}.subscriptions AS one
        WHERE one.subscription_id = ANY (place.subscription_ids) AND one.state = 'started'
    ) AS waits,
    ARRAY(
        SELECT one.subscription::text FROM {schema}.subscriptions AS one
        WHERE one.subscription_id = ANY (place.subscription_ids) ORDER BY 1
    ) AS subscriptions,
    stored.received_at,
    place.since,
    length(stored.body) AS body_bytes,
    run.stamp,
    place.arrival_id,
    place.position,
    place.arrival
FROM (
    SELECT
        arrival_id, position, queue_id, group_key, status, NULL AS reason, sequence, ordinal, priority, attempt,
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
        arrival_id, position, NULL, NULL, 'unrouted', problem, NULL, NULL, NULL, 0, NULL, '{{}}'::integer[], NULL,
        unrouted_at
    FROM {schema}.unrouted
) AS place
JOIN {schema}.spool AS stored USING (arrival_id, position)
JOIN {schema}.tickets AS run USING (arrival_id)
JOIN {schema}.locations AS start USING (location)
LEFT JOIN {schema}.queues AS queue USING (queue_id);
