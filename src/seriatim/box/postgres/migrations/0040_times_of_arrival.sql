-- Times of arrival: a clock begins with the arrival of the message that started it, not when a turn first looks at it.

-- A run of tickets arrives when its numbers are given, which is at commit. A column with a constant for what is there
-- already is added without writing the table anew.
DO $times$
BEGIN
    EXECUTE format('ALTER TABLE {schema}.tickets ADD COLUMN arrived_us bigint NOT NULL DEFAULT %s', {schema}.now_us());
END
$times$;
ALTER TABLE {schema}.tickets ALTER COLUMN arrived_us SET DEFAULT {schema}.now_us();

-- Of an entry: where it is known when the entry is written, beside `stamp`; and when it was put back into the queue. NULL:
-- its ticket tells.
ALTER TABLE {schema}.entries ADD COLUMN arrived_us bigint;

-- What waits to be judged, or for other messages, arrived when it was published, as far as that is known.
UPDATE {schema}.tickets AS run SET arrived_us = least(run.arrived_us, waiting.published_us)
FROM (
    SELECT stored.arrival_id, min((extract(epoch FROM stored.received_at) * 1000000)::bigint) AS published_us
    FROM {schema}.spool AS stored
    WHERE (stored.arrival_id, stored.position) IN (
        SELECT arrival_id, position FROM {schema}.entries WHERE status IN ('arrived', 'held')
        UNION ALL
        SELECT arrival_id, position FROM {schema}.to_route
    )
    GROUP BY stored.arrival_id
) AS waiting
WHERE run.arrival_id = waiting.arrival_id;

-- As in 0018, and answers with the time of arrival.
DROP FUNCTION {schema}.dispense(text, bigint, bigint);
CREATE FUNCTION {schema}.dispense(
    at_location text, how_many bigint, for_arrival bigint DEFAULT NULL,
    OUT epoch bigint, OUT number bigint, OUT stamp bigint, OUT arrived_us bigint
)
LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
    -- Not by PERFORM, which runs a query.
    locked boolean := pg_try_advisory_xact_lock({schema}.location_lock(at_location)) OR {schema}.wait_for_lock(
        {schema}.location_lock(at_location), FALSE, format('the location "%s"', at_location)
    );
BEGIN
    LOOP
        -- A statement of its own: its snapshot is younger than the lock.
        INSERT INTO {schema}.tickets AS given (location, epoch, number, count, arrival_id)
        SELECT
            place.location, coalesce(newest.epoch + newest.taken / place.last_number, 0),
            coalesce(newest.taken % place.last_number + 1, 1), how_many, for_arrival
        FROM {schema}.locations AS place LEFT JOIN LATERAL (
            SELECT run.epoch, run.number - 1 + run.count AS taken
            FROM {schema}.tickets AS run WHERE run.location = at_location
            ORDER BY run.epoch DESC, run.number DESC LIMIT 1
        ) AS newest ON TRUE
        WHERE place.location = at_location
        RETURNING given.epoch, given.number, given.stamp, given.arrived_us INTO epoch, number, stamp, arrived_us;
        EXIT WHEN FOUND;
        INSERT INTO {schema}.locations (location) VALUES (at_location) ON CONFLICT DO NOTHING;
    END LOOP;
END
$function$;

-- These functions carry the time along; the rest of each stays as it is. `turn_entries` answers with the time of arrival of
-- each message that has arrived or is held: a message that may not be seen before a time arrives then.
DO $all$
DECLARE
    one record;
    known oid;
    before text;
    now_is text;
BEGIN
    FOR one IN
        SELECT * FROM (VALUES
            ('enter', TRUE, $q$stamps bigint[])$q$, $q$stamps bigint[], times bigint[] DEFAULT NULL)$q$),
            ('enter', FALSE, $q$subscription_ids, stamp$q$, $q$subscription_ids, stamp, arrived_us$q$),
            ('enter', FALSE, $q$stamps[place]$q$, $q$stamps[place], times[place]$q$),
            ('take_in', FALSE, $q$    stamps bigint[];$q$, $q$    stamps bigint[];
    came bigint[];
    times bigint[];$q$),
            (
                'take_in', FALSE, $q$array_agg(run.stamp) INTO numbered, stamped$q$,
                $q$array_agg(run.stamp), array_agg(run.arrived_us) INTO numbered, stamped, came$q$
            ),
            (
                'take_in', FALSE, $q$ORDER BY place
        );
    END IF;
    PERFORM$q$, $q$ORDER BY place
        );
        times := ARRAY(
            SELECT came[array_position(numbered, arrival_id)]
            FROM unnest(arrival_ids) WITH ORDINALITY AS arrival (arrival_id, place) ORDER BY place
        );
    END IF;
    PERFORM$q$
            ),
            ('take_in', FALSE, $q$entry_subscriptions, stamps$q$, $q$entry_subscriptions, stamps, times$q$),
            ('take_in_one', FALSE, $q$    stamped bigint;$q$, $q$    given record;
    stamped bigint;
    came bigint;$q$),
            (
                'take_in_one', FALSE, $q$stamped := ({schema}.dispense(at_location, 1, arrival)).stamp;$q$,
                $q$given := {schema}.dispense(at_location, 1, arrival);
        stamped := given.stamp;
        came := given.arrived_us;$q$
            ),
            ('take_in_one', FALSE, $q$subscription_ids, stamp$q$, $q$subscription_ids, stamp, arrived_us$q$),
            ('take_in_one', FALSE, $q$by_subscriptions, stamped$q$, $q$by_subscriptions, stamped, came$q$),
            -- A message that is put back, or is routed once more, arrives in its queue then.
            ('requeue', FALSE, $q$ordinal, late, attempt
        )$q$, $q$ordinal, late, attempt, arrived_us
        )$q$),
            ('requeue', FALSE, $q$OR gone.late, gone.attempt$q$, $q$OR gone.late, gone.attempt, {schema}.now_us()$q$),
            (
                'enter_again', FALSE, $q$entry_subscriptions, NULL
    );$q$, $q$entry_subscriptions, NULL,
        array_fill({schema}.now_us(), ARRAY[cardinality(arrival_ids)])
    );$q$
            ),
            ('route_again', FALSE, $q$AS $function$
BEGIN
$q$, $q$AS $function$
DECLARE
    times bigint[];
BEGIN
$q$),
            ('route_again', FALSE, $q$entry_subscriptions, NULL
    );$q$, $q$entry_subscriptions, NULL, times
    );$q$),
            (
                'route_again', FALSE, $q$    -- Those that nobody wants now either$q$,
                $q$    -- What no queue wanted comes now; what was published through SQL came with its ticket.
    IF EXISTS (
        SELECT FROM {schema}.unrouted AS known WHERE known.arrival_id = ANY (route_again.arrival_ids)
    ) THEN
        times := array_fill({schema}.now_us(), ARRAY[cardinality(arrival_ids)]);
    END IF;
    -- Those that nobody wants now either$q$
            ),
            ('turn_entries', TRUE, $q$unrouted boolean$q$, $q$unrouted boolean, times bigint[]$q$),
            (
                'turn_entries', FALSE, $q$SET stamp = run.stamp$q$,
                $q$SET stamp = run.stamp, arrived_us = coalesce(entry.arrived_us, run.arrived_us)$q$
            ),
            (
                'turn_entries', FALSE, $q$entry.stamp AS first_by
$q$, $q$entry.stamp AS first_by, coalesce(entry.arrived_us, (
                        SELECT run.arrived_us FROM {schema}.tickets AS run WHERE run.arrival_id = entry.arrival_id
                    )) AS came
$q$
            ),
            (
                'turn_entries', FALSE, $q$SELECT entry.*, run.stamp
$q$, $q$SELECT entry.*, run.stamp, coalesce(entry.arrived_us, run.arrived_us)
$q$
            ),
            (
                'turn_entries', FALSE, $q$(SELECT unrouted FROM around) AS unrouted
$q$, $q$(SELECT unrouted FROM around) AS unrouted,
        array_agg(greatest(came, (extract(epoch FROM visible_at) * 1000000)::bigint)) AS times
$q$
            ),
            ('turn_entries', FALSE, $q$waits, first_by, position AS then_by$q$, $q$waits, came, first_by, position AS then_by$q$),
            ('turn_entries', FALSE, $q$one.waits, one.arrival, 0$q$, $q$one.waits, one.arrived_us, one.arrival, 0$q$),
            ('turn_entries', FALSE, $q$one.waits, one.ordinal, 0$q$, $q$one.waits, NULL, one.ordinal, 0$q$),
            ('turn_entries', FALSE, $q$same.waits, same.arrival, 0$q$, $q$same.waits, same.arrived_us, same.arrival, 0$q$)
        ) AS wanted (name, anew, old, new)
    LOOP
        SELECT fn.oid INTO STRICT known FROM pg_proc AS fn
        WHERE fn.pronamespace = '{schema}'::regnamespace AND fn.proname = one.name;
        before := pg_get_functiondef(known);
        IF (length(before) - length(replace(before, one.old, ''))) <> length(one.old) THEN
            RAISE EXCEPTION 'not once in %: %', one.name, one.old;
        END IF;
        now_is := replace(before, one.old, one.new);
        IF one.anew THEN -- with other arguments, or another result
            EXECUTE format('DROP FUNCTION %s', known::regprocedure);
        END IF;
        EXECUTE now_is;
    END LOOP;
END
$all$;

-- Lock groups of a queue that have a timer which is due, or a message that may be seen from now on; and groups with
-- messages that nobody has judged, from `from_rank` (NULL: none) to `until_rank` (NULL: all). `through`: where the search for
-- those goes on; NULL: it is over. It reads a part of what has arrived at once, for a group may have very much of it.
DROP FUNCTION {schema}.lock_due(integer, integer, bigint);
CREATE FUNCTION {schema}.lock_due(
    of_queue integer, how_many integer, at_us bigint, from_rank bigint, until_rank bigint,
    OUT group_keys text[], OUT now_us bigint, OUT isolation text, OUT version bigint, OUT through bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    candidate text;
    one record;
    tried text[] := ARRAY[]::text[];
    looked integer := 0;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    now_us := coalesce(at_us, {schema}.now_us());
    isolation := current_setting('transaction_isolation');
    version := (SELECT max(change.version) FROM {schema}.changes AS change);
    group_keys := ARRAY[]::text[];
    FOR candidate IN
        SELECT known.group_key FROM {schema}.known_groups AS known
        WHERE known.queue_id = of_queue AND known.due_at <= now_us ORDER BY known.due_at
    LOOP
        EXIT WHEN cardinality(group_keys) >= how_many;
        tried := tried || candidate;
        IF {schema}.lock_group(of_queue, candidate, now_us) THEN
            group_keys := group_keys || candidate;
        END IF;
    END LOOP;
    FOR one IN
        SELECT entry.group_key, entry.rank FROM {schema}.entries AS entry
        WHERE entry.queue_id = of_queue AND entry.status = 'arrived' AND entry.rank >= from_rank
            AND (until_rank IS NULL OR entry.rank <= until_rank)
        ORDER BY entry.rank
    LOOP
        IF cardinality(group_keys) >= how_many OR looked >= 20000 THEN
            through := one.rank;
            EXIT;
        END IF;
        looked := looked + 1;
        CONTINUE WHEN one.group_key = ANY (tried);
        tried := tried || one.group_key;
        IF {schema}.lock_group(of_queue, one.group_key, now_us) THEN
            group_keys := group_keys || one.group_key;
        END IF;
    END LOOP;
END
$function$;
