-- Origins: messages that are on the way to a gate carry whose place they have there.

-- Which queues lead to which gate: the origin queue, the queues of its way, and the gate itself. Written anew with the definitions
-- of queues, which say it.
CREATE TABLE {schema}.ways (
    queue_id integer NOT NULL,
    gate_id integer NOT NULL,
    -- The name of the queue whose messages have their places there; and whether it is this queue.
    origin text NOT NULL,
    is_origin boolean NOT NULL,
    PRIMARY KEY (queue_id, gate_id)
);

-- Write down which queues lead to which gate. The caller has the lock of the definitions.
CREATE FUNCTION {schema}.note_ways() RETURNS void
LANGUAGE plpgsql
AS $function$
BEGIN
    DELETE FROM {schema}.ways;
    INSERT INTO {schema}.ways (queue_id, gate_id, origin, is_origin)
    SELECT way.queue_id, gate.queue_id, place.queue, way.queue_id = place.queue_id
    FROM {schema}.queues AS place
    JOIN {schema}.queues AS gate ON gate.queue = place.definition ->> 'gate'
    JOIN {schema}.queues AS way ON way.queue_id IN (place.queue_id, gate.queue_id) OR place.definition -> 'through' ? way.queue;
END
$function$;

-- Whose place a message has that comes into a queue: none, or one row. In a gate that has a gate itself it counts for the first
-- until its place is closed.
CREATE FUNCTION {schema}.place_at_gate(of_queue integer, context jsonb)
RETURNS TABLE (gate_id integer, origin_group text, origin_number bigint)
LANGUAGE sql STABLE
AS $function$
    SELECT
        way.gate_id, CASE WHEN carried.is_so AND way.gate_id <> way.queue_id THEN context ->> 'origin_group' END,
        CASE WHEN carried.is_so THEN (context ->> 'origin_ordinal')::bigint END
    FROM {schema}.ways AS way CROSS JOIN LATERAL (
        SELECT coalesce(context ->> 'origin_queue' = way.origin, FALSE) AS is_so
    ) AS carried
    WHERE way.queue_id = of_queue AND (way.is_origin OR carried.is_so)
    ORDER BY (way.gate_id = way.queue_id) DESC LIMIT 1
$function$;

-- The properties of a message from a role, without an origin that it may carry: one of a queue from which the role receives, or
-- from whose way it does.
CREATE FUNCTION {schema}.without_origin(context jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE
AS $function$
BEGIN
    IF context ? 'origin_queue' AND EXISTS (
        SELECT FROM {schema}.ways AS way
        WHERE way.origin = context ->> 'origin_queue' AND way.gate_id <> way.queue_id
            AND way.queue_id = ANY ({schema}.permitted('receive'))
    ) THEN
        RETURN context - '{{origin_queue,origin_group,origin_incarnation,origin_ordinal}}'::text[];
    END IF;
    RETURN context;
END
$function$;

-- These functions write down whose place a message has; the rest of each stays as it is. `on_way`: whether an entry may be in a
-- queue that leads to a gate, or is one. Properties of origins are refused where properties are that nobody may give.
DO $all$
DECLARE
    one record;
    known oid;
    before text;
    now_is text;
BEGIN
    FOR one IN
        SELECT * FROM (VALUES
            ('enter', TRUE, $q$(arrival_ids bigint[], positions$q$, $q$(on_way boolean, arrival_ids bigint[], positions$q$),
            ('enter', FALSE, $q$        queue_id, group_key, rank, arrival_id, position, sequence, size, priority, visible_at,$q$,
            $q$        gate_id, origin_group, origin_number, status,
        queue_id, group_key, rank, arrival_id, position, sequence, size, priority, visible_at,$q$),
            (
                'enter', FALSE, $q$        queue_id, group_key, moment_us - (priority - 5) * 10000000,$q$,
                $q$        way.gate_id, way.origin_group, way.origin_number,
        CASE WHEN way.gate_id = queue_id THEN 'placed' ELSE 'arrived' END,
        queue_id, group_key, moment_us - (priority - 5) * 10000000,$q$
            ),
            (
                'enter', FALSE, $q$    WHERE problem IS NULL AND arrival_ids[place] > 0;$q$,
                $q$    LEFT JOIN LATERAL (
        SELECT known.* FROM {schema}.spool AS stored
        CROSS JOIN LATERAL {schema}.place_at_gate(entry.queue_id, stored.context) AS known
        WHERE on_way AND stored.arrival_id = ANY (ARRAY[arrival_ids[entry.place]])
            AND stored.position = ANY (ARRAY[positions[entry.place]])
        OFFSET 0 -- so that nothing is looked up where nothing is on the way
    ) AS way ON TRUE
    WHERE problem IS NULL AND arrival_ids[place] > 0;$q$
            ),
            ('take_in', TRUE, $q$by_itself boolean, flushed boolean)$q$, $q$on_way boolean, by_itself boolean, flushed boolean)$q$),
            ('take_in', FALSE, $q$        space := {schema}.space_of_role({schema}.caller());
$q$, $q$        space := {schema}.space_of_role({schema}.caller());
        on_way := TRUE;
$q$),
            ('take_in', FALSE, $q${schema}.enter(
        arrival_ids,$q$, $q${schema}.enter(
        on_way, arrival_ids,$q$),
            (
                'take_in_unique', TRUE, $q$entry_keys text[], by_itself boolean, flushed boolean)$q$,
                $q$entry_keys text[], on_way boolean, by_itself boolean, flushed boolean)$q$
            ),
            ('take_in_unique', FALSE, $q$        -- Numbered at the commit, though$q$, $q$        on_way,
        -- Numbered at the commit, though$q$),
            ('route_again', FALSE, $q${schema}.enter(
        arrival_ids,$q$, $q${schema}.enter(
        TRUE, arrival_ids,$q$),
            ('enter_again', FALSE, $q${schema}.enter(
        arrival_ids,$q$, $q${schema}.enter(
        TRUE, arrival_ids,$q$),
            ('merge_parts', FALSE, $q$        INSERT INTO {schema}.entries (
            queue_id,$q$, $q$        INSERT INTO {schema}.entries (
            gate_id, queue_id,$q$),
            ('merge_parts', FALSE, $q$        SELECT
            queue_id, group_key, moment_us$q$, $q$        SELECT
            CASE WHEN has_gates THEN (
                SELECT known.gate_id FROM {schema}.ways AS known
                WHERE known.queue_id = entry.queue_id AND known.is_origin
            ) END,
            queue_id, group_key, moment_us$q$),
            -- What comes from a pipeline carries no origin.
            ('merge_parts', FALSE, $q$    moment_us bigint := {schema}.now_us();
$q$, $q$    moment_us bigint := {schema}.now_us();
    has_gates boolean := EXISTS (SELECT FROM {schema}.ways);
$q$),
            ('requeue', FALSE, $q$            entry_id, queue_id, group_key, status, rank,$q$,
            $q$            gate_id, origin_group, origin_number, entry_id, queue_id, group_key, status, rank,$q$),
            ('requeue', FALSE, $q$            gone.entry_id, gone.queue_id, gone.group_key, gone.its_status,$q$,
            $q$            way.gate_id, way.origin_group, way.origin_number,
            gone.entry_id, gone.queue_id, gone.group_key, gone.its_status,$q$),
            ('requeue', FALSE, $q$        FROM gone JOIN {schema}.spool AS stored USING (arrival_id, position)
$q$, $q$        FROM gone JOIN {schema}.spool AS stored USING (arrival_id, position)
        LEFT JOIN LATERAL {schema}.place_at_gate(gone.queue_id, stored.context) AS way ON TRUE
$q$),
            ('bring_back', FALSE, $q$            entry_id, queue_id, group_key, status, rank,$q$,
            $q$            gate_id, origin_group, origin_number, entry_id, queue_id, group_key, status, rank,$q$),
            ('bring_back', FALSE, $q$            gone.entry_id, gone.queue_id, gone.group_key, 'held',$q$,
            $q$            way.gate_id, way.origin_group, way.origin_number,
            gone.entry_id, gone.queue_id, gone.group_key, 'held',$q$),
            ('bring_back', FALSE, $q$        FROM gone JOIN {schema}.spool AS stored USING (arrival_id, position)
$q$, $q$        FROM gone JOIN {schema}.spool AS stored USING (arrival_id, position)
        LEFT JOIN LATERAL {schema}.place_at_gate(gone.queue_id, stored.context) AS way ON TRUE
$q$),
            ('publish', FALSE, $q$'{{type,message_id,ticket,epoch,received_at}}'$q$,
            $q$'{{type,message_id,ticket,epoch,received_at,origin_queue,origin_group,origin_incarnation,origin_ordinal}}'$q$),
            ('wrong_message', FALSE, $q$'{{type,message_id,ticket,epoch,received_at}}'$q$,
            $q$'{{type,message_id,ticket,epoch,received_at,origin_queue,origin_group,origin_incarnation,origin_ordinal}}'$q$),
            (
                'wrong_message', FALSE, $q$received_at can''t be given as properties$q$,
                $q$received_at and those of an origin can''t be given as properties$q$
            ),
            ('permit_incoming', FALSE, $q$given.context::jsonb AS properties$q$,
            $q${schema}.without_origin(given.context::jsonb) AS properties$q$)
        ) AS wanted (name, anew, old, new)
    LOOP
        SELECT fn.oid INTO STRICT known FROM pg_proc AS fn
        WHERE fn.pronamespace = '{schema}'::regnamespace AND fn.proname = one.name;
        before := pg_get_functiondef(known);
        IF (length(before) - length(replace(before, one.old, ''))) <> length(one.old) THEN
            RAISE EXCEPTION 'not once in %: %', one.name, one.old;
        END IF;
        now_is := replace(before, one.old, one.new);
        IF one.anew THEN -- with other arguments
            EXECUTE format('DROP FUNCTION %s', known::regprocedure);
        END IF;
        EXECUTE now_is;
    END LOOP;
END
$all$;
