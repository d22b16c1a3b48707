-- Record that a handler has failed at messages that it got together, and count the attempt of each; only the first
-- gets a row in `faults`. The caller has put them back, and has the lock of their group; `of_group` NULL: the queue
-- has none. With a `delay` they wait, and their group with them; without one, waiting receivers are notified. Return
-- the data of the first message, or NULL if it is gone.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.note_fault(
    of_queue integer, of_group text, of_entries bigint[], its_kind text, its_class text, its_error text,
    its_traceback text, of_worker text, delay interval,
    OUT attempts integer, OUT now_us bigint, OUT message_id text, OUT type text, OUT sequence bigint
)
AS $function$
#variable_conflict use_column
DECLARE
    moment timestamptz := clock_timestamp();
    again timestamptz := moment + delay;
BEGIN
    PERFORM {schema}.permit_entries('receive', of_queue, of_entries);
    now_us := (extract(epoch FROM moment) * 1000000)::bigint;
    UPDATE {schema}.entries AS entry SET attempt = entry.attempt + 1, visible_at = again, delayed_at = moment
    WHERE entry.entry_id = ANY (of_entries) AND entry.queue_id = of_queue
        AND entry.group_key = coalesce(of_group, entry.group_key);
    -- After the locks of group and entry, in the usual order.
    UPDATE {schema}.trials AS trial SET token = NULL
    WHERE trial.queue_id = of_queue AND trial.unit IN (of_group, of_entries[1]::text) AND trial.token IS NOT NULL;
    INSERT INTO {schema}.faults AS fault (
        queue_id, group_key, entry_id, arrival_id, position, message_id, type, sequence, ordinal, attempt, kind,
        error_class, error, traceback, at, worker, retry_at
    )
    SELECT
        of_queue, entry.group_key, entry.entry_id, entry.arrival_id, entry.position, stored.message_id, stored.type,
        entry.sequence, entry.ordinal, entry.attempt, its_kind, its_class, its_error, its_traceback, moment, of_worker,
        again
    FROM {schema}.entries AS entry
    JOIN {schema}.spool AS stored
        ON stored.arrival_id = ANY (ARRAY[entry.arrival_id]) AND stored.position = ANY (ARRAY[entry.position])
    WHERE entry.entry_id = of_entries[1] AND entry.queue_id = of_queue
        AND entry.group_key = coalesce(of_group, entry.group_key)
    RETURNING fault.attempt, fault.message_id, fault.type, fault.sequence INTO attempts, message_id, type, sequence;
    IF again IS NULL THEN
        PERFORM {schema}.call_waiters(ARRAY[of_queue], 1);
    ELSE
        UPDATE {schema}.known_groups SET
            ready_rank = NULL, due_at = least(due_at, (extract(epoch FROM again) * 1000000)::bigint)
        WHERE queue_id = of_queue AND group_key = of_group;
    END IF;
END
$function$;
