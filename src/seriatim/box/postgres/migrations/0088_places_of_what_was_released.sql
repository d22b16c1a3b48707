-- What a gate has released has its place at the next gate, if it has a gate itself: also when it is put back. And places of several groups
-- of a gate are opened again together.

-- Whose place a message has that comes into a queue: none, or one row. In a gate that has a gate itself it counts for the first
-- until its place is closed; `released`: it is, so that it counts for the next one, by its own number.
DROP FUNCTION {schema}.place_at_gate(integer, jsonb);
CREATE FUNCTION {schema}.place_at_gate(of_queue integer, context jsonb, released boolean DEFAULT FALSE)
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
    ORDER BY ((way.gate_id = way.queue_id) <> released) DESC LIMIT 1
$function$;

-- The places of messages that were set aside on the way; those that have none are left out. `carried`: the message came there with the
-- number; otherwise it is the one that it has in this queue.
DROP FUNCTION {schema}.aside_places(integer, bigint[]);
CREATE FUNCTION {schema}.aside_places(of_queue integer, of_entries bigint[])
RETURNS TABLE (entry_id bigint, origin_group text, origin_number bigint, carried boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit('operate', ARRAY[of_queue]);
    RETURN QUERY
    SELECT
        one.entry_id, coalesce(way.origin_group, one.group_key), coalesce(way.origin_number, one.ordinal),
        way.origin_number IS NOT NULL
    FROM {schema}.aside AS one
    JOIN {schema}.spool AS stored USING (arrival_id, position)
    CROSS JOIN LATERAL {schema}.place_at_gate(one.queue_id, stored.context, TRUE) AS way
    WHERE one.queue_id = of_queue AND one.entry_id = ANY (of_entries) AND way.gate_id <> one.queue_id
        AND coalesce(way.origin_number, one.ordinal) IS NOT NULL;
END
$function$;

-- Of each of these groups the first number that the gate hasn't passed. The caller has locked them.
DROP FUNCTION {schema}.next_at_gate(integer, text);
CREATE FUNCTION {schema}.next_at_gate(of_gate integer, of_groups text[]) RETURNS bigint[]
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_gate]);
    RETURN ARRAY(
        SELECT coalesce(known.next, 1)
        FROM unnest(of_groups) WITH ORDINALITY AS wanted (group_key, place)
        LEFT JOIN {schema}.known_groups AS known ON known.queue_id = of_gate AND known.group_key = wanted.group_key
        ORDER BY wanted.place
    );
END
$function$;

-- Places are open again, each a group and a number: results that waited there as those of closed places wait for them to be closed once
-- more. The caller has locked the groups.
DROP FUNCTION {schema}.reopen_places(integer, text, bigint[]);
CREATE FUNCTION {schema}.reopen_places(of_gate integer, of_groups text[], numbers bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_gate]);
    WITH again AS (
        UPDATE {schema}.entries AS entry SET
            status = 'placed', arrival = NULL, gate_id = of_gate, origin_number = entry.sequence
        FROM unnest(of_groups, numbers) AS place (group_key, number)
        WHERE entry.queue_id = of_gate AND entry.group_key = place.group_key AND entry.status = 'held' AND NOT entry.late
            AND entry.sequence = place.number
        RETURNING entry.group_key
    )
    UPDATE {schema}.known_groups AS known SET arrivals = known.arrivals - counted.results
    FROM (SELECT again.group_key, count(*) AS results FROM again GROUP BY again.group_key) AS counted
    WHERE known.queue_id = of_gate AND known.group_key = counted.group_key;
END
$function$;

-- Put back what was set aside; as before, but for the place at the next gate of what a gate had released.
CREATE OR REPLACE FUNCTION {schema}.requeue(
    of_queue integer, of_group text, of_entries bigint[], its_statuses text[], its_ordinals bigint[], to_the_end boolean[]
) RETURNS bigint
LANGUAGE plpgsql
SET enable_seqscan = off
AS $function$
DECLARE
    moved record;
BEGIN
    WITH gone AS (
        DELETE FROM {schema}.aside AS one
        USING unnest(of_entries, its_statuses, its_ordinals, to_the_end) AS goes (entry_id, status, ordinal, late)
        WHERE one.entry_id = goes.entry_id AND one.queue_id = of_queue AND one.group_key = of_group
        RETURNING one.*, goes.status AS its_status, goes.ordinal AS its_ordinal, goes.late AS to_the_end
    ), entered AS (
        INSERT INTO {schema}.entries (
            gate_id, origin_group, origin_number, entry_id, queue_id, group_key, status, rank, arrival_id, position, sequence, size, priority,
            subscription_ids, ordinal, late, attempt, arrived_us
        )
        SELECT
            way.gate_id, way.origin_group, way.origin_number,
            gone.entry_id, gone.queue_id, gone.group_key, gone.its_status,
            (extract(epoch FROM stored.received_at) * 1000000)::bigint - (gone.priority - 5) * 10000000,
            gone.arrival_id, gone.position, gone.sequence, gone.size, gone.priority, gone.subscription_ids,
            gone.its_ordinal, gone.to_the_end OR gone.late, gone.attempt, {schema}.now_us()
        FROM gone JOIN {schema}.spool AS stored USING (arrival_id, position)
        LEFT JOIN LATERAL {schema}.place_at_gate(gone.queue_id, stored.context, gone.its_status = 'queued') AS way ON TRUE
    )
    SELECT
        count(*) AS messages,
        count(*) FILTER (WHERE gone.to_the_end) AS ended,
        -- What was released before stays counted as released.
        count(*) FILTER (WHERE gone.to_the_end AND gone.ordinal IS NULL) AS released,
        count(*) FILTER (WHERE NOT gone.to_the_end AND gone.ordinal IS NULL) AS arrived,
        count(*) FILTER (WHERE gone.disposition = 'late') AS late,
        count(*) FILTER (WHERE gone.disposition = 'duplicate') AS duplicate,
        count(*) FILTER (WHERE gone.disposition = 'rejected') AS rejected,
        count(*) FILTER (WHERE gone.disposition = 'dead' AND gone.ordinal IS NULL) AS dead
    INTO moved FROM gone;
    UPDATE {schema}.known_groups AS known SET
        ordinal = known.ordinal + moved.ended,
        arrivals = known.arrivals - moved.arrived,
        decided = ARRAY[
            known.decided[1] + moved.released, known.decided[2], known.decided[3] - moved.late,
            known.decided[4] - moved.duplicate, known.decided[5], known.decided[6] - moved.rejected,
            known.decided[7] - moved.dead
        ]
    WHERE known.queue_id = of_queue AND known.group_key = of_group;
    IF NOT FOUND AND of_group <> '' AND {schema}.numbering(ARRAY[of_queue]) IS NOT NULL THEN
        PERFORM {schema}.number_at_commit(ARRAY[of_queue], ARRAY(
            SELECT entry.arrival_id FROM {schema}.entries AS entry WHERE entry.entry_id = ANY (of_entries)
        ));
    END IF;
    RETURN moved.messages;
END
$function$;
