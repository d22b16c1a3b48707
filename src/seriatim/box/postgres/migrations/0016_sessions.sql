-- Sessions in transactions of applications: the box sees neither their commits nor their savepoints. So it asks PostgreSQL
-- what has become of a delivery, by the transaction or subtransaction that has handed it out: that is in progress,
-- committed or aborted, however it was ended.

-- The transaction, or subtransaction, that has handed messages out, or put them back; for who asks right afterwards. A
-- turn writes the row of its group; of a queue without groups it locks the messages.
CREATE FUNCTION {schema}.handed_by(of_queue integer, of_group text, entry_ids bigint[]) RETURNS xid8
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    top bigint := pg_current_xact_id()::text::bigint;
    short bigint;
    own bigint;
BEGIN
    PERFORM {schema}.permit_entries(of_queue, entry_ids);
    IF of_group IS NULL THEN
        SELECT entry.xmax::text::bigint INTO short FROM {schema}.entries AS entry WHERE entry.entry_id = entry_ids[1];
    ELSE
        SELECT known.xmin::text::bigint INTO short FROM {schema}.known_groups AS known
        WHERE known.queue_id = of_queue AND known.group_key = of_group;
    END IF;
    -- Rows have the lower half of the number. A subtransaction is younger than its transaction.
    own := (top & -4294967296) | short;
    RETURN (CASE WHEN own < top THEN own + 4294967296 ELSE own END)::text::xid8;
END
$function$;

-- What has become of messages that were handed out by `handed`. `hand`: 'in progress' where they are in the hands of this
-- transaction, else 'committed' or 'aborted'. `is_left`: some of them aren't done. `is_put`: they were put back by `put`, and
-- that stands.
CREATE FUNCTION {schema}.standing(
    of_queue integer, of_group text, entry_ids bigint[], handed xid8, put xid8,
    OUT hand text, OUT is_left boolean, OUT is_put boolean
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    is_ours boolean := TRUE;
BEGIN
    PERFORM {schema}.permit_entries(of_queue, entry_ids);
    hand := coalesce(pg_xact_status(handed), 'aborted');
    is_left := EXISTS (SELECT FROM {schema}.entries WHERE entry_id = ANY (entry_ids));
    is_put := put IS NOT NULL AND coalesce(pg_xact_status(put), 'aborted') <> 'aborted';
    IF hand = 'in progress' THEN
        -- A transaction that was prepared is in progress, too, and keeps its locks: then it isn't this one.
        IF of_group IS NOT NULL THEN
            is_ours := pg_try_advisory_xact_lock({schema}.group_lock(of_queue, of_group));
        ELSIF is_left THEN
            PERFORM FROM {schema}.entries WHERE entry_id = ANY (entry_ids) FOR NO KEY UPDATE SKIP LOCKED;
            is_ours := FOUND;
        END IF;
        IF NOT is_ours THEN
            hand := 'aborted';
        END IF;
    END IF;
END
$function$;

-- As `put_back`, and by which transaction or subtransaction.
CREATE FUNCTION {schema}.put_back_by(
    of_queue integer, of_group text, entry_ids bigint[], ordinals bigint[], lates boolean[]
) RETURNS xid8
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.put_back(of_queue, of_group, entry_ids, ordinals, lates);
    RETURN {schema}.handed_by(of_queue, of_group, entry_ids);
END
$function$;

-- Put back what was handed out in a transaction that was committed without ending it. Somebody else may have had the group
-- since: that is waited for, and what of it was done or judged anew is left as it is.
CREATE FUNCTION {schema}.put_back_committed(
    of_queue integer, of_group text, entry_ids bigint[], ordinals bigint[], lates boolean[]
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET lock_timeout = '10s'
AS $function$
DECLARE
    kept bigint[];
BEGIN
    PERFORM {schema}.permit_entries(of_queue, entry_ids);
    PERFORM pg_advisory_xact_lock({schema}.group_lock(of_queue, of_group));
    SELECT array_agg(entry.entry_id) INTO kept
    FROM unnest(entry_ids, ordinals) AS handed (entry_id, ordinal)
    JOIN {schema}.entries AS entry ON entry.entry_id = ANY (ARRAY[handed.entry_id])
    WHERE entry.status IN ('arrived', 'queued') AND coalesce(entry.ordinal, handed.ordinal) = handed.ordinal;
    PERFORM {schema}.put_back(
        of_queue, of_group,
        array_agg(handed.entry_id), array_agg(handed.ordinal), array_agg(handed.late)
    )
    FROM unnest(entry_ids, ordinals, lates) AS handed (entry_id, ordinal, late)
    WHERE handed.entry_id = ANY (kept)
    HAVING count(*) > 0;
END
$function$;

-- The number that comes next to a side of a dialog is not what the other side sends next: what waits to be delivered hasn't
-- come, and the other side may be gone. `far_sent`: of one that is gone, the number that would have come next.
ALTER TABLE {schema}.endpoints ADD COLUMN far_sent bigint;

-- A side goes, and what it had to be delivered with it.
CREATE FUNCTION {schema}.keep_sequence() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    UPDATE {schema}.endpoints AS far SET far_sent = coalesce((
        SELECT min(one.sequence) FROM {schema}.transmission AS one
        WHERE one.handle = old.handle AND one.to_service = far.service
    ), old.send_sequence)
    WHERE far.conversation_id = old.conversation_id AND far.is_initiator <> old.is_initiator;
    RETURN NULL;
END
$function$;
-- Triggers go by their names: this one before those that delete what waits to be delivered ("RI_…").
CREATE TRIGGER "KEEP_SEQUENCE" AFTER DELETE ON {schema}.endpoints
FOR EACH ROW EXECUTE FUNCTION {schema}.keep_sequence();

-- The sides of dialogs as they stand, read without locks. `receive_sequence`: the number that comes next; `unread`: what
-- waits in the queue; `waiting`: what waits to be delivered, and `transmission_status` why.
CREATE OR REPLACE VIEW {schema}.dialogs AS
SELECT
    known.handle,
    known.conversation_id,
    CASE WHEN known.expires_at <= clock_timestamp() AND known.state IN ('SO', 'SI', 'CO', 'DI') THEN 'ER'
        ELSE known.state END AS state,
    known.service,
    known.to_services,
    known.contract,
    place.queue,
    known.group_id,
    known.is_initiator,
    known.is_monolog,
    known.priority,
    known.encryption,
    known.retains AS retention,
    known.send_sequence,
    CASE WHEN known.is_monolog AND known.is_initiator THEN 0 ELSE coalesce((
        -- In order: what is behind the first that waits waits, too.
        SELECT coalesce((
            SELECT min(one.sequence) FROM {schema}.transmission AS one
            WHERE one.handle = far.handle AND one.to_service = known.service
        ), far.send_sequence)
        FROM {schema}.endpoints AS far
        WHERE far.conversation_id = known.conversation_id AND far.is_initiator <> known.is_initiator
    ), known.far_sent, 0) END AS receive_sequence,
    (
        SELECT count(*) FROM {schema}.entries AS entry JOIN {schema}.spool AS stored USING (arrival_id, position)
        WHERE entry.queue_id = known.queue_id AND entry.group_key = known.group_id::text
            AND stored.context -> 'dialog' ->> 'handle' = known.handle::text
    ) AS unread,
    coalesce(undelivered.waiting, 0) AS waiting,
    undelivered.status AS transmission_status,
    known.began_at,
    known.closed_at,
    known.expires_at,
    known.timer_at,
    known.error_code,
    known.error
FROM {schema}.endpoints AS known
JOIN {schema}.queues AS place USING (queue_id)
LEFT JOIN LATERAL (
    SELECT count(*) AS waiting, string_agg(DISTINCT CASE
        WHEN service.service IS NULL THEN format('there is no service "%s"', one.to_service)
        WHEN NOT service.definition -> 'contracts' ? known.contract AND known.is_initiator THEN
            format('the service "%s" doesn''t accept the contract "%s"', one.to_service, known.contract)
        WHEN EXISTS (
            SELECT FROM {schema}.endpoints AS far
            WHERE far.conversation_id = known.conversation_id AND far.is_initiator <> known.is_initiator
                AND far.service = one.to_service AND far.state IN ('SI', 'CO')
        ) THEN format('the queue of the service "%s" is full', one.to_service)
        WHEN EXISTS (
            SELECT FROM {schema}.endpoints AS far
            WHERE far.conversation_id = known.conversation_id AND far.is_initiator <> known.is_initiator
                AND far.service = one.to_service AND far.state = 'DO'
        ) THEN format('the service "%s" has ended the dialog', one.to_service)
        ELSE format('the dialog was cleaned up at the service "%s"', one.to_service)
    END, '; ') AS status
    FROM {schema}.transmission AS one LEFT JOIN {schema}.services AS service ON service.service = one.to_service
    WHERE one.handle = known.handle
) AS undelivered ON undelivered.waiting > 0;
