-- Obey what has come from other boxes, fire due timers, and end dialogs whose lifetime is over; locked dialogs are skipped. Return the number of these
-- dialogs, the entries that are set aside, and why each dialog failed that can't be ended: it stops no other one.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.fire_dialogs(at_most integer, OUT done integer, OUT set_aside bigint[], OUT failed jsonb)
AS $function$
DECLARE
    moment CONSTANT timestamptz := clock_timestamp(); -- see `is_due`
    one record;
    side record;
    sides uuid[];
    free boolean;
    gone bigint[];
    told CONSTANT text := 'the lifetime of the dialog has ended';
BEGIN
    set_aside := '{}';
    failed := '{}';
    PERFORM {schema}.permit_anything();
    done := {schema}.obey_waiting(at_most);
    FOR one IN
        SELECT known.handle, known.conversation_id, known.state, known.timer_at, known.expires_at
        FROM {schema}.endpoints AS known
        WHERE known.due_at <= moment ORDER BY known.due_at LIMIT at_most FOR NO KEY UPDATE SKIP LOCKED
    LOOP
        -- The other side of it may have been the first.
        CONTINUE WHEN NOT EXISTS (
            SELECT FROM {schema}.endpoints AS known
            WHERE known.handle = one.handle AND known.due_at <= moment
        );
        gone := '{}';
        BEGIN
            IF one.expires_at <= moment THEN
                sides := ARRAY(
                    SELECT known.handle FROM {schema}.endpoints AS known
                    WHERE known.conversation_id = one.conversation_id ORDER BY known.handle FOR UPDATE SKIP LOCKED
                );
                SELECT bool_and(
                    known.handle = ANY (sides)
                    AND pg_try_advisory_xact_lock({schema}.group_lock(known.queue_id, known.group_id::text))
                ) INTO free
                FROM {schema}.endpoints AS known WHERE known.conversation_id = one.conversation_id;
                CONTINUE WHEN NOT free;
                DELETE FROM {schema}.known_transmission AS waiting WHERE waiting.handle = ANY (sides);
                FOR side IN
                    SELECT known.* FROM {schema}.endpoints AS known WHERE known.handle = ANY (sides)
                LOOP
                    IF side.state NOT IN ('ER', 'CD') THEN
                        PERFORM {schema}.say(
                            side.link_id, side.conversation_id, side.is_initiator, 'error', side.opened_in, side.number,
                            {LIFETIME_CODE}, told
                        );
                    END IF;
                    gone := gone || {schema}.drop_unread(
                        side.handle, ARRAY[]::text[], 'the lifetime of its dialog has ended'
                    );
                    PERFORM {schema}.happen(
                        side.handle, 'lifetime ends', NULL, {LIFETIME_CODE}, told
                    );
                END LOOP;
            ELSE
                UPDATE {schema}.endpoints AS known SET timer_at = NULL WHERE known.handle = one.handle;
                PERFORM {schema}.happen(one.handle, 'timer fires');
            END IF;
            set_aside := set_aside || gone;
            done := done + 1;
        EXCEPTION WHEN OTHERS THEN
            IF SQLSTATE ~ '^(40|53|55|57|58)' THEN
                RAISE; -- the server's trouble, or another transaction's
            END IF;
            failed := failed || jsonb_build_object(one.handle, SQLERRM);
        END;
    END LOOP;
END
$function$;
