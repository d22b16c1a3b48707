-- Begin the next incarnation of a group: take the messages of its present count back from those that were set aside,
-- as held messages before all others, in order of arrival. The kernel then judges them from the start. Return how
-- many there are. The caller has the lock of the group.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.bring_back(of_queue integer, of_group text) RETURNS bigint
AS $function$
DECLARE
    moved record;
BEGIN
    PERFORM {schema}.permit('operate', ARRAY[of_queue]);
    WITH chosen AS (
        SELECT one.entry_id FROM {schema}.aside AS one
        JOIN {schema}.known_groups AS known ON known.queue_id = one.queue_id AND known.group_key = one.group_key
        WHERE one.queue_id = of_queue AND one.group_key = of_group AND one.counted = known.ordinal
            AND one.disposition IN ('late', 'duplicate', 'invalid')
        ORDER BY one.entry_id DESC
        LIMIT (
            SELECT count.suspects FROM {schema}.known_groups AS count
            WHERE count.queue_id = of_queue AND count.group_key = of_group
        )
    ), gone AS (
        DELETE FROM {schema}.aside AS one USING chosen WHERE one.entry_id = chosen.entry_id RETURNING one.*
    ), entered AS (
        INSERT INTO {schema}.entries (
            gate_id, origin_group, origin_number, entry_id, queue_id, group_key, status, rank, arrival_id, position,
            sequence, size, meaning, priority,
            subscription_ids, attempt, edited, late, waits, arrival, arrived_us, serial
        )
        SELECT
            way.gate_id, way.origin_group, way.origin_number,
            gone.entry_id, gone.queue_id, gone.group_key, 'held',
            (extract(epoch FROM stored.received_at) * 1000000)::bigint - (gone.priority - 5) * 10000000,
            gone.arrival_id, gone.position, gone.sequence, gone.size, gone.meaning, gone.priority, gone.subscription_ids,
            gone.attempt, EXISTS (SELECT FROM {schema}.edits AS edit WHERE edit.entry_id = gone.entry_id),
            TRUE, TRUE, row_number() OVER (ORDER BY gone.entry_id) - count(*) OVER (), {schema}.now_us(),
            coalesce(stored.serial, stored.arrival_id + stored.position)
        FROM gone JOIN {schema}.spool AS stored USING (arrival_id, position)
        LEFT JOIN LATERAL {schema}.place_at_gate(gone.queue_id, stored.context) AS way ON TRUE
    )
    SELECT
        count(*) AS messages,
        count(*) FILTER (WHERE gone.disposition = 'late') AS late,
        count(*) FILTER (WHERE gone.disposition = 'duplicate') AS duplicate,
        count(*) FILTER (WHERE gone.disposition = 'invalid') AS invalid
    INTO moved FROM gone;
    UPDATE {schema}.known_groups AS known SET
        incarnation = known.incarnation + 1,
        decided[{decided.LATE}] = known.decided[{decided.LATE}] - moved.late,
        decided[{decided.DUPLICATE}] = known.decided[{decided.DUPLICATE}] - moved.duplicate,
        decided[{decided.INVALID}] = known.decided[{decided.INVALID}] - moved.invalid
    WHERE known.queue_id = of_queue AND known.group_key = of_group;
    RETURN moved.messages;
END
$function$;
