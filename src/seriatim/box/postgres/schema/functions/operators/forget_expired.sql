-- Forget groups of a queue that have been idle since before a moment: check `how_many` of them after the key
-- `after_key`. They leave no row, and a group that comes again begins in a higher incarnation. Groups stay that are
-- locked, that wait for something, that an operator or a fault has stopped, or whose instance runs. The groups of a
-- gate go with those of its origin queue, and not by themselves; if that is unordered, the gate's groups decide which
-- are idle. Return how many were forgotten, and the key after which to go on; NULL: that was all.
CREATE OR REPLACE FUNCTION {schema}.forget_expired(
    of_queue integer, before timestamptz, after_key text, how_many integer, OUT forgotten bigint, OUT through text
)
AS $function$
DECLARE
    candidates text[];
    mine text[];
    latest integer;
    its_gate integer;
    numbers boolean;
    looked_at integer;
BEGIN
    SELECT gate.queue_id, origin.definition #>> '{policy,name}' = 'unordered' INTO its_gate, numbers
    FROM {schema}.queues AS origin JOIN {schema}.queues AS gate ON gate.queue = origin.definition ->> 'gate'
    WHERE origin.queue_id = of_queue;
    looked_at := CASE WHEN numbers THEN its_gate ELSE of_queue END;
    SELECT array_agg(group_key ORDER BY group_key), count(*) INTO candidates, forgotten FROM (
        SELECT group_key FROM {schema}.known_groups
        WHERE queue_id = looked_at AND group_key > after_key AND touched_at < before
            AND ready_rank IS NULL AND due_at IS NULL AND flags & {flag.SUSPENDED|FAULTED} = 0
        ORDER BY group_key LIMIT how_many
    ) AS idle;
    through := CASE WHEN forgotten = how_many THEN candidates[how_many] END;
    forgotten := 0;
    IF candidates IS NULL THEN
        RETURN;
    END IF;
    -- Before the groups, in the usual order.
    PERFORM {schema}.take_lock({schema}.lock_of('definitions'), 'the definitions');
    SELECT array_agg(group_key) INTO mine FROM unnest(candidates) AS wanted (group_key)
    WHERE pg_try_advisory_xact_lock({schema}.group_lock(of_queue, group_key))
        AND (its_gate IS NULL OR pg_try_advisory_xact_lock({schema}.group_lock(its_gate, group_key)))
        AND (numbers IS NOT TRUE OR {schema}.hold_places(of_queue, group_key));
    -- A separate statement: it sees rows that are younger than the locks.
    WITH gone AS (
        DELETE FROM {schema}.known_groups AS known
        WHERE known.queue_id = looked_at AND known.group_key = ANY (mine) AND known.touched_at < before
            AND known.ready_rank IS NULL AND known.due_at IS NULL AND known.flags & {flag.SUSPENDED|FAULTED} = 0
            AND NOT EXISTS (
                SELECT FROM {schema}.entries AS entry
                WHERE entry.queue_id = of_queue AND entry.group_key = known.group_key
            ) AND NOT EXISTS (
                SELECT FROM {schema}.requests AS request
                WHERE request.queue_id IN (of_queue, its_gate) AND request.group_key = known.group_key
            ) AND NOT EXISTS (
                SELECT FROM {schema}.known_instances AS instance
                WHERE instance.queue_id = of_queue AND instance.group_key = known.group_key
            )
            AND (its_gate IS NULL OR {schema}.gate_is_idle(its_gate, of_queue, known.group_key))
        RETURNING known.incarnation, known.group_key
    ), passed AS (
        DELETE FROM {schema}.known_groups AS other USING gone
        WHERE other.queue_id = its_gate AND looked_at <> its_gate AND other.group_key = gone.group_key
        RETURNING other.incarnation
    ), given AS (
        DELETE FROM {schema}.place_runs AS run USING gone
        WHERE run.queue_id = of_queue AND run.group_key = gone.group_key
    )
    SELECT count(*), greatest(max(incarnation), (SELECT max(passed.incarnation) FROM passed)) + 1 INTO forgotten, latest
    FROM gone;
    UPDATE {schema}.queues SET incarnation = latest WHERE queue_id IN (of_queue, its_gate) AND incarnation < latest;
    IF FOUND THEN
        INSERT INTO {schema}.changes (version, what)
        SELECT max(version) + 1, 'groups of a queue that had expired were forgotten' FROM {schema}.changes;
    END IF;
END
$function$;
