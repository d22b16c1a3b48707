-- Results that are published together are stored with the places at their gates that the publisher gives: the properties of each needn't
-- be read again. For a role that isn't the owner the box looks itself, as it does for what SQL publishes.
-- And messages of one delivery that are done together ask once for each group that their gate looks, not one by one.
DO $all$
DECLARE
    one record;
    known regprocedure;
    before text;
BEGIN
    FOR one IN
        SELECT * FROM (VALUES
            ('enter', TRUE, $q$numbered_queues integer[] DEFAULT NULL::integer[])$q$,
            $q$numbered_queues integer[] DEFAULT NULL::integer[], entry_gates integer[] DEFAULT NULL::integer[], entry_origins text[] DEFAULT NULL::text[], entry_numbers bigint[] DEFAULT NULL::bigint[])$q$),
            ('enter', FALSE, $q$        way.gate_id, way.origin_group, way.origin_number,
        CASE WHEN way.gate_id = queue_id THEN$q$, $q$        coalesce(entry.gate_id, way.gate_id), coalesce(entry.origin_group, way.origin_group),
        coalesce(entry.origin_number, way.origin_number),
        CASE WHEN coalesce(entry.gate_id, way.gate_id) = queue_id THEN$q$),
            ('enter', FALSE, $q$        entry_subscriptions
    ) WITH ORDINALITY AS entry (place, queue_id, group_key, sequence, size, priority, problem, subscription_ids, nth)
$q$, $q$        entry_subscriptions, entry_gates, entry_origins, entry_numbers
    ) WITH ORDINALITY AS entry (
        place, queue_id, group_key, sequence, size, priority, problem, subscription_ids, gate_id, origin_group, origin_number, nth
    )
$q$),
            ('enter', FALSE, $q$        WHERE on_way AND stored$q$, $q$        WHERE on_way AND entry_gates IS NULL AND stored$q$),
            ('take_in', TRUE, $q$numbered_queues integer[] DEFAULT NULL::integer[])$q$,
            $q$numbered_queues integer[] DEFAULT NULL::integer[], entry_gates integer[] DEFAULT NULL::integer[], entry_origins text[] DEFAULT NULL::text[], entry_numbers bigint[] DEFAULT NULL::bigint[])$q$),
            ('take_in', FALSE, $q$        on_way := TRUE;
$q$, $q$        on_way := TRUE;
        entry_gates := NULL;
        entry_origins := NULL;
        entry_numbers := NULL;
$q$),
            ('take_in', FALSE, $q$entry_subscriptions, stamps, times, numbered_queues
$q$, $q$entry_subscriptions, stamps, times, numbered_queues,
        entry_gates, entry_origins, entry_numbers
$q$),
            ('complete', FALSE, $q$    alone bigint;
$q$, $q$    alone bigint;
    looks text[];
$q$),
            ('complete', FALSE, $q$    IF keep = 'nothing' THEN
        WITH done AS (
            DELETE FROM {schema}.entries WHERE entry_id = ANY (entry_ids) RETURNING arrival_id, position
        )$q$, $q$    IF keep = 'nothing' THEN
        PERFORM set_config('seriatim.looks', 'together', TRUE);
        WITH done AS (
            DELETE FROM {schema}.entries WHERE entry_id = ANY (entry_ids)
            RETURNING arrival_id, position, CASE WHEN gate_id <> queue_id THEN gate_id || ' ' || coalesce(origin_group, group_key) END AS looked
        )$q$),
            ('complete', FALSE, $q$        SELECT array_agg(done.arrival_id), array_agg(done.position), (SELECT count(*) FROM alone)
        INTO arrivals, positions, alone FROM done;
    ELSIF$q$, $q$        SELECT
            array_agg(done.arrival_id), array_agg(done.position), (SELECT count(*) FROM alone),
            array_agg(DISTINCT done.looked) FILTER (WHERE done.looked IS NOT NULL)
        INTO arrivals, positions, alone, looks FROM done;
        PERFORM set_config('seriatim.looks', '', TRUE);
        IF looks IS NOT NULL THEN
            PERFORM {schema}.look_at_gates(looks);
        END IF;
    ELSIF$q$)
        ) AS wanted (name, anew, old, new)
    LOOP
        SELECT fn.oid INTO STRICT known FROM pg_proc AS fn
        WHERE fn.pronamespace = '{schema}'::regnamespace AND fn.proname = one.name;
        before := pg_get_functiondef(known);
        IF (length(before) - length(replace(before, one.old, ''))) <> length(one.old) THEN
            RAISE EXCEPTION 'not once in %: %', one.name, one.old;
        END IF;
        IF one.anew THEN -- with other arguments
            EXECUTE format('DROP FUNCTION %s', known);
        END IF;
        EXECUTE replace(before, one.old, one.new);
    END LOOP;
END
$all$;
-- Once for each group and transaction, until the gate has looked: `close_places` forgets what was asked for.
-- `groups`: the number of a gate, a space, and the key of a group.
CREATE FUNCTION {schema}.look_at_gates(groups text[]) RETURNS void
LANGUAGE plpgsql AS $function$
DECLARE
    looked jsonb := coalesce(nullif(current_setting('seriatim.looked', TRUE), ''), '[]')::jsonb;
    unasked text[] := ARRAY(SELECT own FROM unnest(groups) AS own WHERE NOT looked ? own);
BEGIN
    IF unasked = '{{}}' THEN
        RETURN;
    END IF;
    INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
    SELECT split_part(own, ' ', 1)::integer, substr(own, strpos(own, ' ') + 1), 'look', {schema}.now_us()
    FROM unnest(unasked) AS own;
    PERFORM {schema}.call_waiters(ARRAY[gate_id], count(*)) FROM (
        SELECT split_part(own, ' ', 1)::integer AS gate_id FROM unnest(unasked) AS own
    ) AS asked GROUP BY gate_id;
    -- What it doesn't remember is asked for twice at worst.
    PERFORM set_config('seriatim.looked', CASE
        WHEN jsonb_array_length(looked) < 100 THEN looked || to_jsonb(unasked) ELSE to_jsonb(unasked)
    END::text, TRUE);
END
$function$;
CREATE OR REPLACE FUNCTION {schema}.look_at_gate() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
BEGIN
    IF OLD.late AND OLD.origin_number IS NULL AND OLD.ordinal IS NOT NULL THEN
        INSERT INTO {schema}.late_places (gate_id, group_key, number)
        VALUES (OLD.gate_id, OLD.group_key, OLD.ordinal) ON CONFLICT DO NOTHING;
    END IF;
    PERFORM {schema}.look_at_gates(ARRAY[OLD.gate_id || ' ' || coalesce(OLD.origin_group, OLD.group_key)]);
    RETURN NULL;
END
$function$;
DROP TRIGGER look_at_gate ON {schema}.entries;
CREATE TRIGGER look_at_gate AFTER DELETE ON {schema}.entries
FOR EACH ROW WHEN (
    OLD.gate_id <> OLD.queue_id AND (OLD.late OR current_setting('seriatim.looks', TRUE) IS DISTINCT FROM 'together')
) EXECUTE FUNCTION {schema}.look_at_gate();
ALTER TABLE {schema}.entries ENABLE ALWAYS TRIGGER look_at_gate;
