-- What operators see of gates: results of open places are held, and a group of a gate says which of its places are open.

-- With the columns that entries have now.
CREATE OR REPLACE VIEW {schema}.seen_entries WITH (security_barrier) AS
SELECT * FROM {schema}.entries WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);

-- Which queues are gates, to those who see them.
CREATE VIEW {schema}.seen_ways WITH (security_barrier) AS
SELECT * FROM {schema}.ways WHERE gate_id = ANY ((SELECT {schema}.sees('see'))::integer[]);

-- Which places of a gate's group are open: `places`: how many numbers were given from the next one on: they are open, or wait for one
-- that is. `open_places`: how many of them are open; `open_number`: the first; `open_us`: since when its oldest message is where it
-- is. NULL: the queue is no gate, or the caller doesn't see it; the last two: no place is open.
CREATE FUNCTION {schema}.open_places(
    of_gate integer, of_group text,
    OUT places bigint, OUT open_places bigint, OUT open_number bigint, OUT open_us bigint
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $function$
DECLARE
    origin integer := (SELECT way.queue_id FROM {schema}.ways AS way WHERE way.gate_id = of_gate AND way.is_origin);
    following bigint;
BEGIN
    IF origin IS NULL OR of_gate <> ALL ({schema}.sees('see')) THEN
        RETURN;
    END IF;
    following := coalesce((
        SELECT known.next FROM {schema}.known_groups AS known
        WHERE known.queue_id = of_gate AND known.group_key = of_group
    ), 1);
    places := greatest({schema}.place_numbers_given(origin, of_group) + 1 - following, 0);
    SELECT count(DISTINCT coalesce(entry.origin_number, entry.ordinal)), min(coalesce(entry.origin_number, entry.ordinal))
    INTO open_places, open_number
    FROM {schema}.entries AS entry
    WHERE entry.gate_id = of_gate AND entry.gate_id <> entry.queue_id
        AND coalesce(entry.origin_group, entry.group_key) = of_group
        AND coalesce(entry.origin_number, entry.ordinal) >= following;
    open_us := (
        SELECT min(entry.rank + (entry.priority - 5) * 10000000) FROM {schema}.entries AS entry
        WHERE entry.gate_id = of_gate AND entry.gate_id <> entry.queue_id
            AND coalesce(entry.origin_group, entry.group_key) = of_group
            AND coalesce(entry.origin_number, entry.ordinal) = open_number
    );
END
$function$;

-- The same of all groups of a gate: how many places are open, and since when the message is where it is that is there for longest.
CREATE FUNCTION {schema}.open_places_of(of_gate integer, OUT open_places bigint, OUT open_us bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $function$
BEGIN
    IF of_gate <> ALL ({schema}.sees('see')) OR NOT EXISTS (
        SELECT FROM {schema}.ways AS way WHERE way.gate_id = of_gate AND way.is_origin
    ) THEN
        RETURN;
    END IF;
    SELECT count(*), min(one.since_us) INTO open_places, open_us FROM (
        SELECT
            coalesce(entry.origin_group, entry.group_key) AS its_group, coalesce(entry.origin_number, entry.ordinal) AS number,
            min(entry.rank + (entry.priority - 5) * 10000000) AS since_us
        FROM {schema}.entries AS entry
        WHERE entry.gate_id = of_gate AND entry.gate_id <> entry.queue_id
            AND coalesce(entry.origin_number, entry.ordinal) IS NOT NULL
        GROUP BY 1, 2
    ) AS one
    -- What is alive of a place that was passed is late when it comes.
    WHERE one.number >= coalesce((
        SELECT known.next FROM {schema}.known_groups AS known
        WHERE known.queue_id = of_gate AND known.group_key = one.its_group
    ), 1);
END
$function$;

-- These functions and views know results of open places: they are held. A group of a gate is there as soon as one of its places is
-- open, though nothing has come to the gate.
DO $all$
DECLARE
    one record;
    before text;
    named text;
BEGIN
    FOR one IN
        SELECT * FROM (VALUES
            (TRUE, 'groups_after', $q$entry.group_key = one.key AND entry.status = 'arrived'
                    )$q$, $q$entry.group_key = one.key
                            AND entry.status IN ('arrived', 'placed')
                    ) OR EXISTS (
                        SELECT FROM {schema}.entries AS way
                        WHERE way.gate_id = place.queue_id AND way.gate_id <> way.queue_id
                            AND coalesce(way.origin_group, way.group_key) = one.key
                            AND coalesce(way.origin_number, way.ordinal) >= 1
                    )$q$),
            (TRUE, 'groups_after', $q$                WHERE step.fitting < most - taken
            )$q$, $q$                WHERE step.fitting < most - taken
            ), way AS (
                -- Likewise those of a gate of which messages are on the way; they have a place if the first of them has a number.
                (
                    SELECT one.group_key, one.number, (one.number IS NOT NULL
                        AND (pattern IS NULL OR one.group_key LIKE pattern))::integer AS fitting
                    FROM (
                        SELECT coalesce(entry.origin_group, entry.group_key) AS group_key,
                            coalesce(entry.origin_number, entry.ordinal) AS number
                        FROM {schema}.entries AS entry
                        WHERE entry.gate_id = place.queue_id AND entry.gate_id <> entry.queue_id
                            AND coalesce(entry.origin_group, entry.group_key) > later
                            AND coalesce(entry.origin_group, entry.group_key) >= lowest
                            AND coalesce(entry.origin_group, entry.group_key) < below
                        ORDER BY coalesce(entry.origin_group, entry.group_key), coalesce(entry.origin_number, entry.ordinal)
                        LIMIT 1
                    ) AS one
                )
                UNION ALL
                SELECT following.group_key, following.number, way.fitting + (following.number IS NOT NULL
                    AND (pattern IS NULL OR following.group_key LIKE pattern))::integer
                FROM way CROSS JOIN LATERAL (
                    SELECT coalesce(entry.origin_group, entry.group_key) AS group_key,
                        coalesce(entry.origin_number, entry.ordinal) AS number
                    FROM {schema}.entries AS entry
                    WHERE entry.gate_id = place.queue_id AND entry.gate_id <> entry.queue_id
                        AND coalesce(entry.origin_group, entry.group_key) > way.group_key
                        AND coalesce(entry.origin_group, entry.group_key) < below
                    ORDER BY coalesce(entry.origin_group, entry.group_key), coalesce(entry.origin_number, entry.ordinal)
                    LIMIT 1
                ) AS following
                WHERE way.fitting < most - taken
            )$q$),
            (TRUE, 'groups_after', $q$                    SELECT step.group_key FROM step WHERE pattern IS NULL OR step.group_key LIKE pattern
                )$q$, $q$                    SELECT step.group_key FROM step WHERE pattern IS NULL OR step.group_key LIKE pattern
                ) UNION (
                    SELECT way.group_key FROM way
                    WHERE way.number IS NOT NULL AND (pattern IS NULL OR way.group_key LIKE pattern)
                )$q$),
            -- Nobody has a result in hand whose place is open, though somebody has its group.
            (FALSE, 'not_done', $q$((entry.status)::text <> 'held'::text)$q$,
            $q$((entry.status)::text <> ALL (ARRAY['held'::text, 'placed'::text]))$q$),
            (FALSE, 'not_done', $q$(entry.status)::text AS status$q$,
            $q$CASE entry.status WHEN 'placed' THEN 'held' ELSE (entry.status)::text END AS status$q$),
            (FALSE, 'message_places', $q$            entries.status,
            NULL::text AS reason,$q$, $q$            CASE entries.status WHEN 'placed' THEN 'held' ELSE entries.status::text END AS status,
            CASE entries.status WHEN 'placed' THEN 'place_open' END AS reason,$q$)
        ) AS wanted (is_function, name, old, new)
    LOOP
        named := '{schema}.' || one.name;
        before := CASE WHEN one.is_function THEN pg_get_functiondef(named::regproc) ELSE pg_get_viewdef(named::regclass) END;
        IF (length(before) - length(replace(before, one.old, ''))) <> length(one.old) THEN
            RAISE EXCEPTION 'not once in %: %', one.name, one.old;
        END IF;
        EXECUTE CASE WHEN one.is_function THEN '' ELSE format('CREATE OR REPLACE VIEW %s AS ', named) END
            || replace(before, one.old, one.new);
    END LOOP;
END
$all$;
