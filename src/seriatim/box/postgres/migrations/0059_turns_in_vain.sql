-- No turn in vain: a gate's group is looked at each time that something on the way ends, and mostly its first place is open still.

-- Does a group that was to be looked at wait for its first place, with nothing else to do? Not if results wait that nobody has seen:
-- behind the open place, the clock of the hole may begin with them. The caller has locked it.
CREATE FUNCTION {schema}.waits_at_gate(of_queue integer, of_group text, now_us bigint) RETURNS boolean
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $function$
DECLARE
    following bigint := (
        SELECT known.next FROM {schema}.known_groups AS known
        WHERE known.queue_id = of_queue AND known.group_key = of_group AND known.ready_rank IS NULL
            AND (known.due_at IS NULL OR known.due_at > now_us) AND known.flags & 26 = 0
    );
BEGIN
    RETURN following IS NOT NULL AND EXISTS (
        SELECT FROM {schema}.entries AS entry
        WHERE entry.gate_id = of_queue AND entry.gate_id <> entry.queue_id
            AND coalesce(entry.origin_group, entry.group_key) = of_group
            AND coalesce(entry.origin_number, entry.ordinal) = following
    ) AND (EXISTS (
        SELECT FROM {schema}.entries AS entry
        WHERE entry.queue_id = of_queue AND entry.group_key = of_group AND entry.status = 'held' AND NOT entry.late
    ) OR NOT EXISTS (
        SELECT FROM {schema}.entries AS entry
        WHERE entry.queue_id = of_queue AND entry.group_key = of_group AND entry.status = 'placed'
    )) AND NOT EXISTS (
        SELECT FROM {schema}.entries AS entry
        WHERE entry.queue_id = of_queue AND entry.group_key = of_group AND entry.status = 'placed'
            AND entry.origin_number < following
    ) AND NOT EXISTS (
        SELECT FROM {schema}.requests AS request WHERE request.queue_id = of_queue AND request.group_key = of_group
    );
END
$function$;

DO $vain$
DECLARE
    body text := pg_get_functiondef('{schema}.lock_group'::regproc);
    old text := $q$ AND action = 'look';
        RETURN TRUE;$q$;
BEGIN
    IF (length(body) - length(replace(body, old, ''))) <> length(old) THEN
        RAISE EXCEPTION 'not once in lock_group: %', old;
    END IF;
    -- Other queues are rarely asked to look.
    EXECUTE replace(body, old, $q$ AND action = 'look';
        RETURN NOT FOUND OR NOT {schema}.waits_at_gate(of_queue, of_group, now_us);$q$);
END
$vain$;
