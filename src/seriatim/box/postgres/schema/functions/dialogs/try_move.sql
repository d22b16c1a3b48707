-- Move a side into another conversation group, with its messages: there they are judged anew, by arrival.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.try_move(
    of_handle uuid, to_group uuid, in_hand text[], OUT refused text, OUT what text, OUT remedy text
)
AS $function$
DECLARE
    own record;
    moved bigint;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[]::integer[]);
    SELECT known.queue_id, known.group_id INTO own FROM {schema}.endpoints AS known WHERE known.handle = of_handle;
    IF own.group_id > to_group THEN
        PERFORM {schema}.take_lock({schema}.group_lock(own.queue_id, to_group::text), 'a conversation group');
    END IF;
    PERFORM {schema}.lock_dialogs(ARRAY[of_handle]);
    PERFORM {schema}.take_lock({schema}.group_lock(own.queue_id, to_group::text), 'a conversation group');
    -- A sender reads its place, and holds its row meanwhile.
    PERFORM FROM {schema}.endpoints AS known WHERE known.handle = of_handle FOR UPDATE;
    SELECT known.*, rule.refusal INTO own FROM {schema}.endpoints AS known
    JOIN {schema}.dialog_rules AS rule
        ON rule.verb = 'move' AND rule.state = {schema}.state_now(known.state, known.expires_at)
    WHERE known.handle = of_handle;
    IF NOT FOUND THEN
        refused := 'usage';
        what := format('there is no dialog with the handle %s', of_handle);
        RETURN;
    END IF;
    PERFORM {schema}.permit('receive', ARRAY[own.queue_id]);
    IF own.refusal IS NOT NULL THEN
        refused := 'refused';
        what := format('the dialog %s can''t be moved: %s', of_handle, own.refusal);
        RETURN;
    END IF;
    UPDATE {schema}.endpoints AS known SET group_id = to_group WHERE known.handle = of_handle;
    UPDATE {schema}.entries AS entry SET
        group_key = to_group::text, status = 'arrived', ordinal = NULL, arrival = NULL, late = FALSE, waits = FALSE
    FROM {schema}.spool AS stored
    WHERE entry.queue_id = own.queue_id AND entry.group_key = own.group_id::text
        AND stored.arrival_id = ANY (ARRAY[entry.arrival_id]) AND stored.position = ANY (ARRAY[entry.position])
        AND stored.context -> 'dialog' ->> 'handle' = of_handle::text AND stored.message_id <> ALL (in_hand);
    GET DIAGNOSTICS moved = ROW_COUNT;
    IF moved > 0 THEN
        INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
        VALUES (own.queue_id, own.group_id::text, 'look', {schema}.now_us());
    END IF;
END
$function$;
