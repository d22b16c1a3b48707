-- What is put back on the way to a gate that has passed its place, and which results a full gate takes.

-- Results of these places leave the gate late: messages on the way to it were put back, and it has passed them.
CREATE FUNCTION {schema}.expect_late(of_gate integer, of_groups text[], numbers bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_gate]);
    INSERT INTO {schema}.late_places (gate_id, group_key, number)
    SELECT of_gate, place.group_key, place.number FROM unnest(of_groups, numbers) AS place (group_key, number)
    ON CONFLICT DO NOTHING;
END
$function$;

-- Is this the first open place of a gate's group, or one before it?
CREATE FUNCTION {schema}.is_next_at_gate(of_queue integer, of_group text, number bigint) RETURNS boolean
LANGUAGE plpgsql STABLE
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $function$
BEGIN
    RETURN EXISTS (
        SELECT FROM {schema}.ways AS way WHERE way.queue_id = of_queue AND way.gate_id = of_queue
    ) AND NOT EXISTS (
        SELECT FROM {schema}.entries AS entry
        WHERE entry.gate_id = of_queue AND entry.gate_id <> entry.queue_id
            AND coalesce(entry.origin_group, entry.group_key) = of_group
            AND coalesce(entry.origin_number, entry.ordinal) < number
            AND coalesce(entry.origin_number, entry.ordinal) >= coalesce((
                SELECT known.next FROM {schema}.known_groups AS known
                WHERE known.queue_id = of_queue AND known.group_key = of_group
            ), 1)
    );
END
$function$;

-- A full gate takes what the others there wait for: or nothing could leave it.
DO $room$
DECLARE
    known oid := '{schema}.waited_for'::regproc;
    before text := pg_get_functiondef(known);
    old text := $q$        ) OR may_know AND EXISTS ($q$;
BEGIN
    IF (length(before) - length(replace(before, old, ''))) <> length(old) THEN
        RAISE EXCEPTION 'not once in waited_for: %', old;
    END IF;
    EXECUTE replace(before, old, $q$        ) OR {schema}.is_next_at_gate(of_queue, asked.group_key, asked.sequence) OR may_know AND EXISTS ($q$);
END
$room$;
