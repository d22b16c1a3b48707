-- Return the steps of a message of the box `home` that came over a link: when it came, its places, and the failures
-- of handlers; an empty object for an unknown message, or one that came another way. A message of the peer itself of
-- which nothing is kept has only the time. Nothing is searched without an index.
-- is: stable, no seqscan, no jit
CREATE OR REPLACE FUNCTION {schema}.link_message_told(
    of_link integer, its_id text, home uuid, its_space text
) RETURNS jsonb
AS $function$
DECLARE
    most_places CONSTANT integer := 20;
    most_faults CONSTANT integer := 50;
    its_link {schema}.known_links;
    of_space text := 'link:' || home || ':' || its_space;
    came_at timestamptz := (
        SELECT known.published_at FROM {schema}.message_ids AS known
        WHERE known.message_id = its_id AND known.id_space = of_space
    );
    stored record;
BEGIN
    IF came_at IS NULL THEN
        RETURN '{}';
    END IF;
    SELECT * INTO its_link FROM {schema}.known_links WHERE link_id = of_link;
    SELECT one.arrival_id, one.position, one.type, one.location, one.epoch, one.number INTO stored
    FROM {schema}.stored_messages AS one
    WHERE one.message_id = its_id AND one.id_space = of_space AND one.received_at = came_at LIMIT 1;
    IF NOT FOUND THEN
        RETURN CASE WHEN home = its_link.peer THEN jsonb_build_object('received_at', came_at) ELSE '{}' END;
    ELSIF stored.location <> 'link:' || its_link.link THEN
        RETURN '{}';
    END IF;
    RETURN jsonb_build_object(
        'received_at', came_at, 'type', stored.type,
        'ticket', jsonb_build_object('location', stored.location, 'epoch', stored.epoch, 'number', stored.number),
        'places', coalesce((
            SELECT jsonb_agg(jsonb_build_object(
                'queue', place.queue, 'group', one.group_key, 'status', one.status, 'reason', left(one.reason, 1000),
                'sequence', one.sequence,
                'ordinal', one.ordinal, 'late', one.late, 'attempt', one.attempt, 'visible_at',
                nullif(one.visible_at, 'infinity'), 'since', one.since,
                'done_by', one.done_by
            ) ORDER BY one.entry_id)
            FROM (
                SELECT each.queue_id, each.group_key, each.entry_id,
                    CASE each.status WHEN 'placed' THEN 'held' ELSE each.status::text END AS status,
                    CASE each.status WHEN 'placed' THEN 'place_open' END AS reason, each.sequence, each.ordinal,
                        each.late, each.attempt,
                    each.visible_at, NULL::timestamptz AS since, NULL AS done_by
                FROM {schema}.entries AS each
                WHERE each.arrival_id = stored.arrival_id AND each.position = stored.position
                UNION ALL
                SELECT each.queue_id, each.group_key, each.entry_id, each.disposition, each.reason, each.sequence,
                    each.ordinal, FALSE, each.attempt,
                    NULL, each.aside_at, NULL
                FROM {schema}.aside AS each
                WHERE each.arrival_id = stored.arrival_id AND each.position = stored.position
                UNION ALL
                SELECT each.queue_id, each.group_key, each.entry_id, 'done', NULL, each.sequence, each.ordinal,
                    each.late, each.attempt,
                    NULL, each.done_at, each.done_by
                FROM {schema}.history AS each
                WHERE each.arrival_id = stored.arrival_id AND each.position = stored.position
                UNION ALL
                SELECT NULL, NULL, NULL, 'unrouted', each.problem, NULL, NULL, FALSE, 0, NULL, each.unrouted_at, NULL
                FROM {schema}.unrouted AS each
                WHERE each.arrival_id = stored.arrival_id AND each.position = stored.position
                UNION ALL
                SELECT NULL, NULL, NULL, 'to_route', NULL, NULL, NULL, FALSE, 0, NULL, NULL, NULL
                FROM {schema}.to_route AS each
                WHERE each.arrival_id = stored.arrival_id AND each.position = stored.position
                LIMIT most_places
            ) AS one
            LEFT JOIN {schema}.queues AS place USING (queue_id)
        ), '[]'),
        'faults', coalesce((
            SELECT jsonb_agg(jsonb_build_object(
                'queue', place.queue, 'group', one.group_key, 'attempt', one.attempt, 'kind', one.kind, 'error_class',
                left(one.error_class, 200),
                'error', left(one.error, 1000), 'at', one.at, 'worker', one.worker, 'retry_at', one.retry_at
            ) ORDER BY one.fault_id)
            FROM (
                SELECT * FROM {schema}.faults AS each
                WHERE each.message_id = its_id AND each.arrival_id = stored.arrival_id
                    AND each.position = stored.position
                ORDER BY each.fault_id DESC LIMIT most_faults
            ) AS one
            LEFT JOIN {schema}.queues AS place USING (queue_id)
        ), '[]')
    );
END
$function$;
