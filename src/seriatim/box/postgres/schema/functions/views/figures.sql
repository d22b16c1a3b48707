-- Return a box's figures for monitoring: a row for each figure of a queue, location or table (`name`), divided by
-- `kind` if it has kinds. A caller that isn't the owner gets the figures of the queues that it sees, and none of the
-- box as a whole.
--
-- Of each queue a share of `most` rows of each table is counted, at least 100. If a queue has more, its counts are
-- taken from a sample of the table's blocks (about 2,000 of them), and its figure `is_estimated` is 1. Groups are
-- counted by their last turn.
-- is: stable, definer, custom plan, no seqscan
CREATE OR REPLACE FUNCTION {schema}.figures(most bigint)
RETURNS TABLE (figure text, name text, kind text, value double precision)
AS $function$
#variable_conflict use_column
DECLARE
    blocks CONSTANT double precision := 2000;
    never CONSTANT bigint := {NEVER};
    seen integer[];
    each bigint;
    many_messages integer[];
    many_groups integer[];
    many_aside integer[];
    counted_queues integer[];
    counted_tables text[];
    counted_kinds text[];
    counts bigint[];
    pages double precision;
BEGIN
    PERFORM {schema}.look('see', NULL, NULL);
    seen := {schema}.sees('see');
    each := greatest(most / greatest(cardinality(seen), 1), 100);

    RETURN QUERY SELECT 'queue_enabled', place.queue, NULL::text, place.enabled::integer::double precision
    FROM {schema}.queues AS place WHERE place.queue_id = ANY (seen);
    RETURN QUERY SELECT 'queue_limit', place.queue, NULL::text, limited.messages::double precision
    FROM {schema}.queues AS place
    CROSS JOIN {schema}.whole_number(place.definition -> 'max_messages') AS limited (messages)
    WHERE place.queue_id = ANY (seen) AND limited.messages IS NOT NULL;

    -- Messages: those of a queue by their status, as far as its share reaches.
    SELECT array_agg(part.queue_id), array_agg(part.of_table), array_agg(part.kind), array_agg(part.messages)
    INTO counted_queues, counted_tables, counted_kinds, counts
    FROM (
        SELECT one.queue_id, 'messages' AS of_table, part.kind, part.messages
        FROM unnest(seen) AS one (queue_id) CROSS JOIN LATERAL (
            SELECT CASE found.status WHEN 'placed' THEN 'held' ELSE found.status::text END AS kind, count(*) AS messages
            FROM (SELECT status FROM {schema}.entries WHERE queue_id = one.queue_id LIMIT each) AS found GROUP BY 1
        ) AS part
        UNION ALL
        SELECT one.queue_id, 'set_aside', part.kind, part.messages
        FROM unnest(seen) AS one (queue_id) CROSS JOIN LATERAL (
            SELECT found.disposition AS kind, count(*) AS messages
            FROM (SELECT disposition FROM {schema}.aside WHERE queue_id = one.queue_id LIMIT each) AS found GROUP BY 1
        ) AS part
    ) AS part;
    SELECT array_agg(queue_id) FILTER (WHERE of_table = 'messages'),
        array_agg(queue_id) FILTER (WHERE of_table = 'set_aside')
    INTO many_messages, many_aside
    FROM (
        SELECT queue_id, of_table
        FROM unnest(counted_queues, counted_tables, counts) AS one (queue_id, of_table, messages)
        GROUP BY queue_id, of_table HAVING sum(messages) >= each
    ) AS full_share;
    RETURN QUERY SELECT what.of_table, place.queue, what.kind, coalesce(one.messages, 0)::double precision
    FROM {schema}.queues AS place
    CROSS JOIN (
        VALUES ('messages', 'arrived'), ('messages', 'held'), ('messages', 'queued'), ('messages', 'in_hand'),
            ('messages', 'faulted'), ('set_aside', 'late'), ('set_aside', 'duplicate'), ('set_aside', 'invalid'),
            ('set_aside', 'rejected'), ('set_aside', 'dead'), ('set_aside', 'void')
    ) AS what (of_table, kind)
    LEFT JOIN unnest(counted_queues, counted_tables, counted_kinds, counts) AS one (queue_id, of_table, kind, messages)
        ON one.queue_id = place.queue_id AND one.of_table = what.of_table AND one.kind = what.kind
    WHERE place.queue_id = ANY (seen)
        AND NOT place.queue_id = ANY (
            CASE what.of_table WHEN 'messages' THEN coalesce(many_messages, '{}') ELSE coalesce(many_aside, '{}') END
        );
    IF many_messages IS NOT NULL THEN
        pages := least(100, 100 * blocks / greatest(pg_relation_size('{schema}.entries'::regclass) / 8192.0, 1));
        RETURN QUERY SELECT 'messages', place.queue, what.kind, coalesce(one.messages * 100 / pages, 0)
        FROM {schema}.queues AS place
        CROSS JOIN unnest(ARRAY['arrived', 'held', 'queued', 'in_hand', 'faulted']) AS what (kind)
        LEFT JOIN (
            SELECT queue_id, CASE status WHEN 'placed' THEN 'held' ELSE status::text END AS kind, count(*) AS messages
            FROM {schema}.entries TABLESAMPLE SYSTEM (pages) GROUP BY 1, 2
        ) AS one USING (queue_id, kind)
        WHERE place.queue_id = ANY (many_messages);
    END IF;
    IF many_aside IS NOT NULL THEN
        pages := least(100, 100 * blocks / greatest(pg_relation_size('{schema}.aside'::regclass) / 8192.0, 1));
        RETURN QUERY SELECT 'set_aside', place.queue, what.kind, coalesce(one.messages * 100 / pages, 0)
        FROM {schema}.queues AS place
        CROSS JOIN unnest(ARRAY['late', 'duplicate', 'invalid', 'rejected', 'dead', 'void']) AS what (kind)
        LEFT JOIN (
            SELECT queue_id, disposition AS kind, count(*) AS messages
            FROM {schema}.aside TABLESAMPLE SYSTEM (pages) GROUP BY 1, 2
        ) AS one USING (queue_id, kind)
        WHERE place.queue_id = ANY (many_aside);
    END IF;

    -- Groups: those with work, and those that stand still, as far as the share reaches; `ready` are the others of
    -- these.
    SELECT array_agg(one.queue_id) INTO many_groups FROM unnest(seen) AS one (queue_id)
    WHERE (
        SELECT count(*) FROM (
            SELECT FROM {schema}.known_groups AS known
            WHERE known.queue_id = one.queue_id AND known.ready_rank IS NOT NULL LIMIT each
        ) AS found
    ) >= each OR (
        SELECT count(*) FROM (
            SELECT FROM {schema}.known_groups AS known
            WHERE known.queue_id = one.queue_id
                AND (known.flags & {flag.SUSPENDED|FAULTED} <> 0 OR known.since <> never) LIMIT each
        ) AS found
    ) >= each;
    pages := least(100, 100 * blocks / greatest(pg_relation_size('{schema}.known_groups'::regclass) / 8192.0, 1));
    RETURN QUERY
    WITH known AS MATERIALIZED (
        SELECT found.*, 1::double precision AS weight FROM unnest(seen) AS one (queue_id) CROSS JOIN LATERAL (
            (
                SELECT known.queue_id, known.group_key, known.flags, known.since, known.reports, known.touched_at
                FROM {schema}.known_groups AS known
                WHERE known.queue_id = one.queue_id AND known.ready_rank IS NOT NULL
                    AND NOT (known.flags & {flag.SUSPENDED|FAULTED} <> 0 OR known.since <> never) LIMIT each
            ) UNION ALL (
                SELECT known.queue_id, known.group_key, known.flags, known.since, known.reports, known.touched_at
                FROM {schema}.known_groups AS known
                WHERE known.queue_id = one.queue_id
                    AND (known.flags & {flag.SUSPENDED|FAULTED} <> 0 OR known.since <> never) LIMIT each
            )
        ) AS found
        WHERE NOT one.queue_id = ANY (coalesce(many_groups, '{}'))
        UNION ALL
        SELECT known.queue_id, known.group_key, known.flags, known.since, known.reports, known.touched_at, 100 / pages
        FROM {schema}.known_groups AS known TABLESAMPLE SYSTEM (pages)
        WHERE known.queue_id = ANY (many_groups)
            AND (known.ready_rank IS NOT NULL OR known.flags & {flag.SUSPENDED|FAULTED} <> 0 OR known.since <> never)
    ), alike AS MATERIALIZED (
        -- Groups that show the same state are looked up once.
        SELECT place.queue, said.policy, known.flags, known.since <> never AS runs, known.reports,
            sum(known.weight) AS weight, sum(known.weight) FILTER (
                WHERE {schema}.stands_from(known.since, said.policy ->> 'hole_timeout') <= {schema}.now_us()
            ) AS old_weight, min(known.since) FILTER (WHERE known.since <> never) AS since,
            min(known.touched_at) AS touched_at
        FROM known JOIN {schema}.queues AS place USING (queue_id)
        CROSS JOIN LATERAL (
            SELECT CASE
                WHEN jsonb_typeof(place.definition -> 'policies') = 'object'
                    THEN coalesce(
                        place.definition -> 'policies' -> split_part(known.group_key, '/', 1),
                        place.definition -> 'policy'
                    )
                ELSE place.definition -> 'policy'
            END AS policy
        ) AS said
        GROUP BY 1, 2, 3, 4, 5
    ), standing AS MATERIALIZED (
        SELECT one.queue, one.weight, one.old_weight, hole.is_open AS has_hole, {schema}.shown_state(
                one.flags, one.flags & {flag.SUSPENDED} <> 0, FALSE, hole.is_open,
                rule.hole_timeout IS NOT NULL AND one.reports > rule.hole_retries
            ) AS state,
            CASE WHEN hole.is_open THEN to_timestamp(one.since / 1e6) END AS opened, one.touched_at
        FROM alike AS one CROSS JOIN LATERAL {schema}.policy_said(one.policy) AS rule
        CROSS JOIN LATERAL (SELECT rule.name = 'standard' AND one.runs AS is_open) AS hole
    )
    SELECT part.figure, part.queue, part.kind, part.value FROM (
        SELECT 'groups' AS figure, place.queue, what.kind, coalesce(sum(one.weight), 0)::double precision AS value
        FROM {schema}.queues AS place
        CROSS JOIN unnest(ARRAY['ready', 'suspended', 'faulted', 'timed_out', 'waiting']) AS what (kind)
        LEFT JOIN standing AS one ON one.queue = place.queue AND one.state = what.kind
        WHERE place.queue_id = ANY (seen) GROUP BY place.queue, what.kind
        UNION ALL
        SELECT 'standing_seconds', queue, state,
            extract(epoch FROM clock_timestamp() - min(coalesce(opened, touched_at)))::double precision
        FROM standing WHERE state IN ('suspended', 'faulted', 'timed_out', 'waiting') GROUP BY queue, state
        UNION ALL
        SELECT 'holes', place.queue, NULL, coalesce(sum(one.weight), 0)
        FROM {schema}.queues AS place LEFT JOIN standing AS one ON one.queue = place.queue AND one.has_hole
        WHERE place.queue_id = ANY (seen) AND place.definition #>> '{policy,name}' = 'standard' GROUP BY place.queue
        UNION ALL
        SELECT 'standing_holes', place.queue, NULL, coalesce(sum(one.old_weight), 0)
        FROM {schema}.queues AS place LEFT JOIN standing AS one
            ON one.queue = place.queue AND one.has_hole AND one.state IN ('waiting', 'timed_out')
        WHERE place.queue_id = ANY (seen) AND place.definition #>> '{policy,name}' = 'standard' GROUP BY place.queue
        UNION ALL
        SELECT 'hole_seconds', queue, NULL, extract(epoch FROM clock_timestamp() - min(opened))::double precision
        FROM standing WHERE has_hole GROUP BY queue
    ) AS part;

    RETURN QUERY SELECT 'is_estimated', place.queue, NULL::text, (
        place.queue_id = ANY (
            coalesce(many_messages, '{}') || coalesce(many_groups, '{}') || coalesce(many_aside, '{}')
        )
    )::integer::double precision
    FROM {schema}.queues AS place WHERE place.queue_id = ANY (seen);

    -- How long the messages to hand out have waited: the first by rank, as in ready_work.sql.
    RETURN QUERY SELECT 'ready_seconds', place.queue, NULL::text, greatest(
        extract(epoch FROM clock_timestamp())::double precision - first.since_us / 1e6::double precision, 0
    )
    FROM {schema}.queues AS place CROSS JOIN LATERAL (
        SELECT min(one.since_us) AS since_us FROM (
            (
                SELECT entry.rank + (entry.priority - 5) * 10000000 AS since_us FROM {schema}.entries AS entry
                WHERE entry.queue_id = place.queue_id AND entry.status = 'arrived'
                    AND (entry.visible_at IS NULL OR entry.visible_at <= clock_timestamp())
                ORDER BY entry.rank LIMIT 1
            ) UNION ALL (
                SELECT known.ready_rank FROM {schema}.known_groups AS known
                WHERE known.queue_id = place.queue_id AND known.ready_rank IS NOT NULL
                ORDER BY known.ready_rank LIMIT 1
            )
        ) AS one
    ) AS first
    WHERE place.queue_id = ANY (seen) AND first.since_us IS NOT NULL;

    -- Dialogs, from a sample of the blocks if there are many.
    pages := least(100, 100 * blocks / greatest(pg_relation_size('{schema}.endpoints'::regclass) / 8192.0, 1));
    RETURN QUERY
    WITH known AS MATERIALIZED (
        SELECT side.service, side.state, count(*) * 100 / pages AS sides, min(side.began_at) AS began_at
        FROM {schema}.endpoints AS side TABLESAMPLE SYSTEM (pages) WHERE side.queue_id = ANY (seen) GROUP BY 1, 2
    )
    SELECT part.figure, known.service::text, known.state::text, part.value FROM known CROSS JOIN LATERAL (
        VALUES ('dialogs', known.sides),
            ('dialog_seconds', extract(epoch FROM clock_timestamp() - known.began_at)::double precision)
    ) AS part (figure, value);

    RETURN QUERY SELECT 'leases', place.queue, NULL::text, count(lease.token)::double precision
    FROM {schema}.queues AS place LEFT JOIN {schema}.leases AS lease USING (queue_id)
    WHERE place.queue_id = ANY (seen) GROUP BY place.queue;
    RETURN QUERY SELECT 'processes', place.queue, NULL::text, count(worker.process_id)::double precision
    FROM {schema}.queues AS place LEFT JOIN {schema}.known_workers AS worker
        ON worker.queue_id = place.queue_id AND worker.seen_at > clock_timestamp() - {schema}.silence()
    WHERE place.queue_id = ANY (seen) GROUP BY place.queue;

    IF NOT {schema}.is_owner() THEN
        RETURN;
    END IF;
    -- Figures of the box as a whole.
    RETURN QUERY SELECT 'unrouted', NULL::text, NULL::text, count(*)::double precision
    FROM (SELECT FROM {schema}.unrouted LIMIT greatest(most, 100)) AS found;
    RETURN QUERY SELECT what.figure, place.location, NULL::text, what.value
    FROM {schema}.locations AS place LEFT JOIN LATERAL (
        SELECT run.epoch, run.number - 1 + run.count AS taken
        FROM {schema}.tickets AS run WHERE run.location = place.location ORDER BY run.epoch DESC, run.number DESC
        LIMIT 1
    ) AS newest ON TRUE
    CROSS JOIN LATERAL (
        VALUES ('dispenser_epoch', coalesce(newest.epoch + newest.taken / place.last_number, 0)::double precision),
            ('dispenser_next', coalesce(newest.taken % place.last_number + 1, 1)::double precision),
            (
                'published',
                (coalesce(newest.epoch, 0)::numeric * place.last_number + coalesce(newest.taken, 0))::double precision
            )
    ) AS what (figure, value);
    RETURN QUERY SELECT 'port_up', known.port, known.partition,
        (known.expires_at > clock_timestamp() AND known.problem IS NULL)::integer::double precision
    FROM {schema}.ports AS known;
    RETURN QUERY SELECT what.figure, road.link, NULL::text, what.value
    FROM {schema}.known_links AS road
    LEFT JOIN {schema}.unanswered_dialogs('1 minute') AS late ON late.link = road.link AND late.problem IS NULL
    CROSS JOIN LATERAL (
        VALUES ('unanswered_dialogs', coalesce(late.dialogs, 0)::double precision),
            ('unanswered_seconds', extract(epoch FROM clock_timestamp() - late.since)::double precision)
    ) AS what (figure, value)
    WHERE what.value IS NOT NULL;
    RETURN QUERY SELECT 'bytes', coalesce(parent.relname, class.relname)::text, NULL::text,
        sum(pg_total_relation_size(class.oid))::double precision
    FROM pg_class AS class
    LEFT JOIN pg_inherits AS part ON part.inhrelid = class.oid
    LEFT JOIN pg_class AS parent ON parent.oid = part.inhparent
    WHERE class.relnamespace = '{schema}'::regnamespace AND class.relkind IN ('r', 'm')
    GROUP BY 2;
    RETURN QUERY SELECT 'transaction_seconds', NULL::text, NULL::text, coalesce(
        extract(epoch FROM clock_timestamp() - min(activity.xact_start))::double precision, 0
    )
    FROM pg_stat_activity AS activity
    WHERE activity.datname = current_database() AND activity.pid <> pg_backend_pid()
        AND activity.backend_type = 'client backend';
END
$function$;
