-- What is set aside without a handler tells which entries that are; dialogs fail in batches of pipelines, too.

DROP FUNCTION {schema}.drop_unread(uuid, text[], text, bigint);
DROP FUNCTION {schema}.fail_dialog(uuid, text, bigint, text);
DROP FUNCTION {schema}.fire_dialogs(integer);
DROP FUNCTION {schema}.failed_messages(integer, bigint[]);
DROP FUNCTION {schema}.unrouted_now(text[]);

-- Take away what waits for a side in its queue, but for messages that its turn has in hand; with a reason it is set
-- aside, else it goes. The caller has the lock of its group. Answers with the entries that are set aside.
CREATE FUNCTION {schema}.drop_unread(of_handle uuid, in_hand text[], why text, from_sequence bigint DEFAULT NULL)
RETURNS bigint[]
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $function$
DECLARE
    own record;
    gone bigint;
    set_aside bigint[];
BEGIN
    SELECT known.queue_id, known.group_id INTO own FROM {schema}.endpoints AS known WHERE known.handle = of_handle;
    WITH unread AS (
        DELETE FROM {schema}.entries AS entry USING {schema}.spool AS stored
        WHERE entry.queue_id = own.queue_id AND entry.group_key = own.group_id::text
            AND stored.arrival_id = entry.arrival_id AND stored.position = entry.position
            AND stored.context -> 'dialog' ->> 'handle' = of_handle::text AND stored.message_id <> ALL (in_hand)
            AND (from_sequence IS NULL OR (stored.context -> 'dialog' ->> 'sequence')::bigint >= from_sequence)
            -- The batch of a pipeline stays as it is.
            AND entry.batch IS NULL
        RETURNING entry.*
    ), kept AS (
        INSERT INTO {schema}.aside (
            entry_id, queue_id, group_key, disposition, reason, arrival_id, position, sequence, size, priority,
            subscription_ids, ordinal, late, attempt
        )
        SELECT
            entry_id, queue_id, group_key, 'dead', why, arrival_id, position, sequence, size, priority,
            subscription_ids, ordinal, late, attempt
        FROM unread WHERE why IS NOT NULL
    ), removed AS (
        DELETE FROM {schema}.spool AS stored USING unread
        WHERE why IS NULL AND stored.arrival_id = unread.arrival_id AND stored.position = unread.position
    )
    SELECT count(*), coalesce(array_agg(unread.entry_id ORDER BY unread.entry_id) FILTER (WHERE why IS NOT NULL), '{{}}')
    INTO gone, set_aside FROM unread;
    IF gone > 0 THEN
        INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
        VALUES (own.queue_id, own.group_id::text, 'look', {schema}.now_us());
    END IF;
    RETURN set_aside;
END
$function$;

-- Messages aren't what their types say, one of each of some dialogs: they are set aside, with what is behind them there,
-- and the dialogs fail on both sides. The caller has the locks of their groups, and has put back what was handed out of
-- them. Answers with the entries that are set aside.
CREATE FUNCTION {schema}.fail_dialogs(handles uuid[], message_ids text[], sequences bigint[], whys text[]) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    own record;
    far record;
    gone bigint[];
    set_aside bigint[] := '{{}}';
BEGIN
    PERFORM {schema}.permit('receive', ARRAY(
        SELECT DISTINCT known.queue_id FROM {schema}.endpoints AS known WHERE known.handle = ANY (handles)
    ));
    FOR own IN
        SELECT known.*, one.message_id AS its_message, one.sequence AS its_sequence, one.why
        FROM unnest(handles, message_ids, sequences, whys) AS one (handle, message_id, sequence, why)
        JOIN {schema}.endpoints AS known USING (handle)
        ORDER BY known.handle
    LOOP
        PERFORM FROM {schema}.endpoints AS known
        WHERE known.conversation_id = own.conversation_id AND (known.handle = own.handle OR NOT known.is_monolog)
        ORDER BY known.handle FOR UPDATE;
        gone := {schema}.drop_unread(own.handle, ARRAY[]::text[], own.why, own.its_sequence);
        UPDATE {schema}.aside AS one SET disposition = 'invalid' FROM {schema}.spool AS stored
        WHERE one.entry_id = ANY (gone) AND stored.arrival_id = one.arrival_id AND stored.position = one.position
            AND stored.message_id = own.its_message;
        set_aside := set_aside || gone;
        PERFORM {schema}.happen(own.handle, 'invalid comes', NULL, -2, own.why);
        CONTINUE WHEN own.is_monolog;
        DELETE FROM {schema}.transmission AS one USING {schema}.endpoints AS known
        WHERE one.handle = known.handle AND known.conversation_id = own.conversation_id;
        FOR far IN
            SELECT known.handle FROM {schema}.endpoints AS known
            WHERE known.conversation_id = own.conversation_id AND known.is_initiator <> own.is_initiator
        LOOP
            PERFORM {schema}.happen(far.handle, 'error comes', NULL, -2, own.why);
        END LOOP;
    END LOOP;
    RETURN set_aside;
END
$function$;

-- Fire the timers that are due, and end what has outlived its lifetime; what somebody has in his hands is passed over.
-- Answers with how many dialogs something was done to, and with the entries that are set aside.
CREATE FUNCTION {schema}.fire_dialogs(at_most integer, OUT done integer, OUT set_aside bigint[])
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    one record;
    side record;
    sides uuid[];
    free boolean;
BEGIN
    done := 0;
    set_aside := '{{}}';
    PERFORM {schema}.permit_anything();
    FOR one IN
        SELECT known.handle, known.conversation_id, known.state, known.timer_at, known.expires_at
        FROM {schema}.endpoints AS known
        WHERE known.due_at <= clock_timestamp() ORDER BY known.due_at LIMIT at_most FOR NO KEY UPDATE SKIP LOCKED
    LOOP
        -- The other side of it may have been the first.
        CONTINUE WHEN NOT EXISTS (
            SELECT FROM {schema}.endpoints AS known
            WHERE known.handle = one.handle AND known.due_at <= clock_timestamp()
        );
        IF one.expires_at <= clock_timestamp() THEN
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
            DELETE FROM {schema}.transmission AS waiting WHERE waiting.handle = ANY (sides);
            FOR side IN
                SELECT known.handle FROM {schema}.endpoints AS known WHERE known.handle = ANY (sides)
            LOOP
                set_aside := set_aside || {schema}.drop_unread(
                    side.handle, ARRAY[]::text[], 'the lifetime of its dialog has ended'
                );
                PERFORM {schema}.happen(
                    side.handle, 'lifetime ends', NULL, -1, 'the lifetime of the dialog has ended'
                );
            END LOOP;
            done := done + 1;
        ELSE
            UPDATE {schema}.endpoints AS known SET timer_at = NULL WHERE known.handle = one.handle;
            PERFORM {schema}.happen(one.handle, 'timer fires');
            done := done + 1;
        END IF;
    END LOOP;
END
$function$;

-- What failures tell of messages that are in queues, or were set aside from them; of the queues that the caller may
-- receive from.
CREATE FUNCTION {schema}.failed_messages(of_entries bigint[])
RETURNS TABLE (
    entry_id bigint, queue_id integer, group_key text, message_id text, type text, context text, property_types jsonb,
    ordinal bigint, attempt integer, disposition text, reason text
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
#variable_conflict use_column
DECLARE
    permitted integer[] := {schema}.permitted('receive');
    is_owner boolean := {schema}.is_owner();
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN QUERY
    SELECT one.entry_id, one.queue_id, one.group_key, stored.message_id, stored.type, stored.context::text,
        stored.property_types, one.ordinal, one.attempt, one.disposition, one.reason
    FROM (
        SELECT entry.entry_id, entry.queue_id, entry.group_key, entry.arrival_id, entry.position, entry.ordinal,
            entry.attempt, NULL AS disposition, '' AS reason
        FROM {schema}.entries AS entry WHERE entry.entry_id = ANY (of_entries)
        UNION ALL
        SELECT gone.entry_id, gone.queue_id, gone.group_key, gone.arrival_id, gone.position, gone.ordinal,
            gone.attempt, gone.disposition, gone.reason
        FROM {schema}.aside AS gone WHERE gone.entry_id = ANY (of_entries)
    ) AS one
    JOIN {schema}.spool AS stored USING (arrival_id, position)
    WHERE is_owner OR one.queue_id = ANY (permitted)
    ORDER BY one.entry_id;
END
$function$;

-- Which of these messages (NULL: of all) this transaction has published so that nobody wanted them, or a queue has set
-- them aside as invalid, and what was wrong with them. Where nobody wanted one, `queue_id` is NULL.
CREATE FUNCTION {schema}.kept_out(message_ids text[])
RETURNS TABLE (
    queue_id integer, group_key text, message_id text, type text, context text, property_types jsonb, problem text
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit('publish', ARRAY[]::integer[]);
    RETURN QUERY
    SELECT found.queue_id, found.group_key, stored.message_id, stored.type, stored.context::text,
        stored.property_types, found.problem
    FROM {schema}.arrivals AS arrival
    CROSS JOIN LATERAL (
        SELECT waiting.position, NULL::integer AS queue_id, NULL AS group_key, waiting.problem
        FROM {schema}.unrouted AS waiting WHERE waiting.arrival_id = arrival.arrival_id
        UNION ALL
        SELECT gone.position, gone.queue_id, gone.group_key, gone.reason
        FROM {schema}.aside AS gone WHERE gone.arrival_id = arrival.arrival_id AND gone.disposition = 'invalid'
    ) AS found
    JOIN {schema}.spool AS stored ON stored.arrival_id = arrival.arrival_id AND stored.position = found.position
    WHERE arrival.transaction = pg_current_xact_id_if_assigned()
        AND (kept_out.message_ids IS NULL OR stored.message_id = ANY (kept_out.message_ids))
    ORDER BY arrival.arrival_id, found.position, found.queue_id;
END
$function$;

-- As `fail_dialogs`, of messages that a turn has put into a batch which isn't complete: they, and what is behind them in
-- their dialogs, are taken out of it.
CREATE FUNCTION {schema}.fail_in_batch(
    of_queue integer, in_batch bigint, handles uuid[], message_ids text[], sequences bigint[], whys text[]
) RETURNS bigint[]
LANGUAGE plpgsql
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
AS $function$
BEGIN
    UPDATE {schema}.entries AS entry SET status = 'queued', batch = NULL
    FROM unnest(handles, sequences) AS one (handle, sequence)
    JOIN {schema}.endpoints AS known USING (handle), {schema}.spool AS stored
    WHERE entry.queue_id = of_queue AND entry.batch = in_batch AND entry.group_key = known.group_id::text
        AND stored.arrival_id = entry.arrival_id AND stored.position = entry.position
        AND stored.context -> 'dialog' ->> 'handle' = one.handle::text
        AND (stored.context -> 'dialog' ->> 'sequence')::bigint >= one.sequence;
    RETURN {schema}.fail_dialogs(handles, message_ids, sequences, whys);
END
$function$;

-- Nobody but the owner.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC;
