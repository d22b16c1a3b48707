-- What waits at a full gate, and what a full gate takes.

-- Groups that stand still because their gate was full, and of which nobody was told that it isn't any more, are looked at once; from
-- then on a turn says when it looks again.
UPDATE {schema}.known_groups AS known SET due_at = {schema}.now_us()
FROM {schema}.queues AS place
WHERE place.queue_id = known.queue_id AND place.definition ->> 'gate' IS NOT NULL
    AND known.ready_rank IS NULL AND known.due_at IS NULL AND EXISTS (
        SELECT FROM {schema}.entries AS entry
        WHERE entry.queue_id = known.queue_id AND entry.group_key = known.group_key AND entry.status = 'queued'
    );

-- A full gate takes the results of all messages that a transaction has in hand, as long as nothing before them is open: with the
-- transaction their places close.

-- The first open place of a gate's group; NULL: none is open. Messages in hand, which are done with the transaction that asks, count as
-- done.
CREATE FUNCTION {schema}.first_open_at_gate(of_gate integer, of_group text, in_hand bigint[]) RETURNS bigint
LANGUAGE plpgsql STABLE
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
AS $function$
BEGIN
    RETURN (
        SELECT coalesce(entry.origin_number, entry.ordinal) FROM {schema}.entries AS entry
        WHERE entry.gate_id = of_gate AND entry.gate_id <> entry.queue_id
            AND coalesce(entry.origin_group, entry.group_key) = of_group
            AND coalesce(entry.origin_number, entry.ordinal) >= coalesce((
                SELECT known.next FROM {schema}.known_groups AS known
                WHERE known.queue_id = of_gate AND known.group_key = of_group
            ), 1)
            AND entry.entry_id <> ALL (in_hand)
        ORDER BY coalesce(entry.origin_number, entry.ordinal) LIMIT 1
    );
END
$function$;

-- `in_hand`: the entries whose results are asked for; their places at a gate count as closed.
DROP FUNCTION {schema}.waited_for(integer, boolean, text[], text[], bigint[]);
CREATE FUNCTION {schema}.waited_for(
    of_queue integer, whole boolean, ids text[], group_keys text[], sequences bigint[], in_hand bigint[] DEFAULT '{{}}'
) RETURNS boolean[]
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    may_know boolean := {schema}.is_owner() OR of_queue = ANY ({schema}.permitted('publish'));
    space text := {schema}.id_space();
    is_gate boolean := EXISTS (SELECT FROM {schema}.ways AS way WHERE way.queue_id = of_queue AND way.gate_id = of_queue);
BEGIN
    IF NOT may_know AND NOT {schema}.is_subscribed(of_queue) THEN
        PERFORM {schema}.permit('publish', ARRAY[of_queue]);
    END IF;
    RETURN ARRAY(
        SELECT EXISTS (
            SELECT FROM {schema}.message_ids AS known
            WHERE known.message_id = asked.message_id AND known.id_space = space
        ) OR is_gate AND (open.number < asked.sequence) IS NOT TRUE OR may_know AND EXISTS (
            SELECT FROM {schema}.entries AS later
            WHERE later.queue_id = of_queue AND later.group_key = asked.group_key
                AND later.status IN ('held', 'arrived') AND (whole OR later.sequence > asked.sequence)
        ) AND NOT EXISTS (
            SELECT FROM {schema}.entries AS same
            WHERE same.queue_id = of_queue AND same.group_key = asked.group_key
                AND same.status IN ('held', 'arrived') AND same.sequence = asked.sequence
        ) AND NOT EXISTS (
            SELECT FROM {schema}.known_groups AS known
            WHERE known.queue_id = of_queue AND known.group_key = asked.group_key AND known.next > asked.sequence
                AND NOT whole
        )
        FROM unnest(ids, group_keys, sequences) WITH ORDINALITY AS asked (message_id, group_key, sequence, place)
        LEFT JOIN (
            SELECT own.group_key, {schema}.first_open_at_gate(of_queue, own.group_key, in_hand) AS number
            FROM (SELECT DISTINCT key FROM unnest(group_keys) AS one (key) WHERE is_gate) AS own (group_key)
        ) AS open ON open.group_key = asked.group_key
        ORDER BY place
    );
END
$function$;
DROP FUNCTION {schema}.is_next_at_gate(integer, text, bigint);

-- Results of a message that was delivered late leave its gate flagged as late, also where it was handed out in the turn that judged it: then its
-- row doesn't tell, and who completes it does.
DO $late$
DECLARE
    known oid := '{schema}.complete'::regproc;
    before text := pg_get_functiondef(known);
    old CONSTANT text := $q$    PERFORM {schema}.permit_entries(of_queue, entry_ids);
$q$;
BEGIN
    IF (length(before) - length(replace(before, old, ''))) <> length(old) THEN
        RAISE EXCEPTION 'not once in complete: %', old;
    END IF;
    EXECUTE replace(before, old, old || $q$    IF TRUE = ANY (lates) THEN
        INSERT INTO {schema}.late_places (gate_id, group_key, number)
        SELECT entry.gate_id, entry.group_key, handed.ordinal
        FROM unnest(entry_ids, ordinals, lates) AS handed (entry_id, ordinal, late)
        JOIN {schema}.entries AS entry ON entry.entry_id = ANY (ARRAY[handed.entry_id])
        WHERE handed.late AND handed.ordinal IS NOT NULL AND entry.gate_id <> entry.queue_id AND entry.origin_number IS NULL
        ON CONFLICT DO NOTHING;
    END IF;
$q$);
END
$late$;
