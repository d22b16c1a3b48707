-- Put messages back that were set aside, with the statuses and ordinals that the kernel gives, and count them back in
-- the group. Each is on the way to its gate again; what a gate had released has its place at the next one.
-- `to_the_end`: the message leaves as a new one, behind all others. Return how many were put back. The caller has the
-- lock of the group.
-- is: no seqscan
CREATE OR REPLACE FUNCTION {schema}.requeue(
    of_queue integer, of_group text, of_entries bigint[], its_statuses text[], its_ordinals bigint[],
    to_the_end boolean[]
) RETURNS bigint
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
            gate_id, origin_group, origin_number, entry_id, queue_id, group_key, status, rank, arrival_id, position,
            sequence, size, meaning, priority,
            subscription_ids, ordinal, late, attempt, edited, arrived_us, serial
        )
        SELECT
            way.gate_id, way.origin_group, way.origin_number,
            gone.entry_id, gone.queue_id, gone.group_key, gone.its_status,
            (extract(epoch FROM stored.received_at) * 1000000)::bigint - (gone.priority - 5) * 10000000,
            gone.arrival_id, gone.position, gone.sequence, gone.size, gone.meaning, gone.priority, gone.subscription_ids,
            gone.its_ordinal, gone.to_the_end OR gone.late, gone.attempt,
            EXISTS (SELECT FROM {schema}.edits AS edit WHERE edit.entry_id = gone.entry_id), {schema}.now_us(),
            coalesce(stored.serial, stored.arrival_id + stored.position)
        FROM gone JOIN {schema}.spool AS stored USING (arrival_id, position)
        LEFT JOIN LATERAL {schema}.place_at_gate(gone.queue_id, stored.context, gone.its_status = 'queued') AS way
            ON TRUE
    )
    SELECT
        count(*) AS messages,
        count(*) FILTER (WHERE gone.to_the_end) AS ended,
        -- Messages that were released before stay counted as released.
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
        decided[{decided.RELEASED}] = known.decided[{decided.RELEASED}] + moved.released,
        decided[{decided.LATE}] = known.decided[{decided.LATE}] - moved.late,
        decided[{decided.DUPLICATE}] = known.decided[{decided.DUPLICATE}] - moved.duplicate,
        decided[{decided.REJECTED}] = known.decided[{decided.REJECTED}] - moved.rejected,
        decided[{decided.DEAD}] = known.decided[{decided.DEAD}] - moved.dead
    WHERE known.queue_id = of_queue AND known.group_key = of_group;
    IF NOT FOUND AND of_group <> '' AND {schema}.numbering(ARRAY[of_queue]) IS NOT NULL THEN
        PERFORM {schema}.number_at_commit(ARRAY[of_queue], ARRAY(
            SELECT entry.arrival_id FROM {schema}.entries AS entry WHERE entry.entry_id = ANY (of_entries)
        ));
    END IF;
    RETURN moved.messages;
END
$function$;
