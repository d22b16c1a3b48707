-- Faults of two more kinds; who writes a fault down learns which message it is; which messages may end their worker.

-- `kind`, besides those from before: unexpected (an exception of which nobody has said whether it passes) or bug (an error
-- in the code of the handler itself).
ALTER TABLE {schema}.faults DROP CONSTRAINT faults_kind_check;
ALTER TABLE {schema}.faults ADD CONSTRAINT faults_kind_check
CHECK (kind IN ('transient', 'business', 'unexpected', 'bug', 'poison', 'timeout'));

-- Write down that a handler failed at some messages, which were handed to it together, and count the attempt. The
-- caller has the lock of their group, and has put them back. With a `delay` their group waits, and nobody for it.
-- Answers with the first of them; with NULL where it isn't there any more.
DROP FUNCTION {schema}.note_fault(integer, text, bigint[], text, text, text, text, text, interval);
CREATE FUNCTION {schema}.note_fault(
    of_queue integer, of_group text, of_entries bigint[], its_kind text, its_class text, its_error text,
    its_traceback text, of_worker text, delay interval,
    OUT attempts integer, OUT now_us bigint, OUT message_id text, OUT type text, OUT sequence bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
#variable_conflict use_column
DECLARE
    moment timestamptz := clock_timestamp();
    again timestamptz := moment + delay;
BEGIN
    PERFORM {schema}.permit_entries(of_queue, of_entries);
    now_us := (extract(epoch FROM moment) * 1000000)::bigint;
    UPDATE {schema}.entries AS entry SET attempt = entry.attempt + 1, visible_at = again
    WHERE entry.entry_id = ANY (of_entries) AND entry.queue_id = of_queue AND entry.group_key = of_group;
    INSERT INTO {schema}.faults AS fault (
        queue_id, group_key, entry_id, arrival_id, position, message_id, type, sequence, ordinal, attempt, kind,
        error_class, error, traceback, at, worker, retry_at
    )
    SELECT
        of_queue, of_group, entry.entry_id, entry.arrival_id, entry.position, stored.message_id, stored.type,
        entry.sequence, entry.ordinal, entry.attempt, its_kind, its_class, its_error, its_traceback, moment, of_worker,
        again
    FROM {schema}.entries AS entry
    JOIN {schema}.spool AS stored
        ON stored.arrival_id = ANY (ARRAY[entry.arrival_id]) AND stored.position = ANY (ARRAY[entry.position])
    WHERE entry.entry_id = of_entries[1] AND entry.queue_id = of_queue AND entry.group_key = of_group
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

-- Has an attempt of a message ended its process, or taken too long? Then its last one is made alone in a process.
CREATE FUNCTION {schema}.has_ended_its_worker(of_queue integer, of_entry bigint) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit_entries(of_queue, ARRAY[of_entry]);
    RETURN EXISTS (
        SELECT FROM {schema}.faults AS fault
        WHERE fault.entry_id = of_entry AND fault.queue_id = of_queue AND fault.kind IN ('poison', 'timeout')
    );
END
$function$;
