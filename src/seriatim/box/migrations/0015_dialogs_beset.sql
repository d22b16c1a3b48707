-- What besets dialogs: messages whose transaction is rolled back again and again, and queues that are full.

-- Of a group of a service's queue: which message was rolled back last, how often in a row, and by which transaction last
-- (the 32 bits that a row says): none counts twice. Written in transactions apart, or it would be rolled back, too.
CREATE TABLE {schema}.rollbacks (
    queue_id integer NOT NULL REFERENCES {schema}.queues ON DELETE CASCADE,
    group_key text COLLATE "C" NOT NULL,
    entry_id bigint NOT NULL,
    times integer NOT NULL,
    last_by bigint NOT NULL,
    PRIMARY KEY (queue_id, group_key)
);

-- Leave a mark on the first message of a delivery, and see whether there is one: who locks a row stays written in it,
-- also where he was rolled back. Answers with the transaction that was rolled back; NULL where there is none, or it
-- counts already. `begun`: dialogs of which it is the first message. The caller has the lock of the group.
CREATE FUNCTION {schema}.take_in_hand(of_queue integer, of_group text, of_entry bigint, begun uuid[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $function$
DECLARE
    own bigint := pg_current_xact_id()::text::bigint & 4294967295;
    following bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
    found bigint;
    whole bigint;
BEGIN
    PERFORM {schema}.permit_entries(of_queue, ARRAY[of_entry]);
    IF cardinality(begun) > 0 THEN
        PERFORM {schema}.converse(begun);
    END IF;
    SELECT entry.xmax::text::bigint INTO found FROM {schema}.entries AS entry WHERE entry.entry_id = of_entry;
    PERFORM FROM {schema}.entries AS entry WHERE entry.entry_id = of_entry FOR UPDATE SKIP LOCKED;
    IF found IN (0, own) THEN
        RETURN NULL;
    END IF;
    -- A row keeps the lower half of a transaction's number.
    whole := following - ((following - found) & 4294967295);
    IF whole BETWEEN 3 AND following - 1 AND pg_xact_status(whole::text::xid8) = 'aborted' AND NOT EXISTS (
        SELECT FROM {schema}.rollbacks AS known
        WHERE known.queue_id = of_queue AND known.group_key = of_group AND known.last_by = found
    ) THEN
        RETURN found;
    END IF;
    RETURN NULL;
END
$function$;

-- Count a rollback that has left its mark. At so many in a row the group is suspended, by a request that its next turn
-- obeys, and counting begins anew: then TRUE. `own`: the transaction that has the group, and will put the message back.
CREATE FUNCTION {schema}.note_rollback(
    of_queue integer, of_group text, of_entry bigint, rolled_back bigint, own bigint, at_most integer
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    counted integer;
BEGIN
    PERFORM {schema}.permit_entries(of_queue, ARRAY[of_entry]);
    INSERT INTO {schema}.rollbacks AS known (queue_id, group_key, entry_id, times, last_by)
    VALUES (of_queue, of_group, of_entry, 1, rolled_back)
    ON CONFLICT (queue_id, group_key) DO UPDATE SET
        times = CASE WHEN known.entry_id = excluded.entry_id THEN known.times + 1 ELSE 1 END,
        entry_id = excluded.entry_id, last_by = excluded.last_by
    RETURNING known.times INTO counted;
    IF counted < at_most THEN
        RETURN FALSE;
    END IF;
    UPDATE {schema}.rollbacks AS known SET times = 0, last_by = own
    WHERE known.queue_id = of_queue AND known.group_key = of_group;
    INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
    VALUES (of_queue, of_group, 'suspend', {schema}.now_us());
    INSERT INTO {schema}.operator_log (actor, action, queue, group_key, reason)
    SELECT
        'seriatim', 'suspend', place.queue, of_group,
        format(
            'the message %s of type %s was rolled back %s times in a row', stored.message_id, left(stored.type, 300), counted
        )
    FROM {schema}.entries AS entry
    JOIN {schema}.spool AS stored USING (arrival_id, position)
    JOIN {schema}.queues AS place USING (queue_id)
    WHERE entry.entry_id = of_entry;
    RETURN TRUE;
END
$function$;

-- Nobody but the owner, unless he lets them in.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC;
