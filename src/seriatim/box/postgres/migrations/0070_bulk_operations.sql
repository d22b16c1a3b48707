-- Bulk operations: an action on many groups, which goes on where the process that works on it ends.

-- `filter`: what the groups were chosen by, for people. `queue_ids`: the queues of its groups. `gathered_at`: when the groups were
-- seen. `begun_at`: when somebody confirmed it; NULL: nothing is done yet. `moved_at`: when the last portion was done. `ended_at`: it is
-- over; with `cancelled_by` before all were done. The rows of its groups say what became of each; the counts are sums of them.
CREATE TABLE {schema}.bulk_operations (
    bulk_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    action text NOT NULL CHECK (length(action) BETWEEN 1 AND 64),
    at_once boolean NOT NULL,
    filter jsonb NOT NULL,
    actor text NOT NULL CHECK (length(actor) BETWEEN 1 AND 256),
    reason text NOT NULL CHECK (length(reason) BETWEEN 1 AND 4096),
    role text NOT NULL DEFAULT session_user,
    queue_ids integer[] NOT NULL,
    gathered_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    begun_at timestamptz,
    moved_at timestamptz,
    ended_at timestamptz,
    cancelled_by text,
    cancelled_because text,
    groups {schema}.zero_or_more NOT NULL DEFAULT 0,
    done {schema}.zero_or_more NOT NULL DEFAULT 0,
    refused {schema}.zero_or_more NOT NULL DEFAULT 0,
    changed {schema}.zero_or_more NOT NULL DEFAULT 0
);
CREATE INDEX bulk_operations_open ON {schema}.bulk_operations (bulk_id) WHERE begun_at IS NOT NULL AND ended_at IS NULL;

-- `seen`: a digest of the group as it was seen. `alone`: it is acted on by itself, since it was locked, or the action needs that. `result`:
-- NULL: not yet. `why`: why it was refused, or what has changed. `operation_id`: its entry in the operator log.
CREATE TABLE {schema}.bulk_groups (
    bulk_id bigint NOT NULL REFERENCES {schema}.bulk_operations ON DELETE CASCADE,
    queue_id integer NOT NULL,
    group_key text COLLATE "C" NOT NULL,
    seen text NOT NULL CHECK (length(seen) BETWEEN 1 AND 64),
    alone boolean NOT NULL DEFAULT FALSE,
    result text CHECK (result IN ('done', 'refused', 'changed')),
    why text,
    operation_id bigint,
    PRIMARY KEY (bulk_id, queue_id, group_key)
);
CREATE INDEX bulk_groups_left ON {schema}.bulk_groups (bulk_id, alone, queue_id, group_key) WHERE result IS NULL;
CREATE INDEX bulk_groups_not_done ON {schema}.bulk_groups (bulk_id, queue_id, group_key) WHERE result <> 'done';

-- A role sees the operations all of whose queues it sees.
CREATE VIEW {schema}.seen_bulk_operations WITH (security_barrier) AS
SELECT * FROM {schema}.bulk_operations WHERE queue_ids <@ (SELECT {schema}.sees('see'))::integer[];
CREATE VIEW {schema}.seen_bulk_groups WITH (security_barrier) AS
SELECT * FROM {schema}.bulk_groups WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);

-- Note an operation, which does nothing before it is begun; answers with its number.
CREATE FUNCTION {schema}.gather_bulk(
    its_action text, its_at_once boolean, its_filter text, its_actor text, its_reason text, of_queues integer[]
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    number bigint;
BEGIN
    PERFORM {schema}.permit('operate', of_queues);
    INSERT INTO {schema}.bulk_operations (action, at_once, filter, actor, reason, queue_ids)
    VALUES (its_action, its_at_once, its_filter::jsonb, its_actor, its_reason, of_queues)
    RETURNING bulk_id INTO number;
    RETURN number;
END
$function$;

-- Add groups to an operation that isn't begun.
CREATE FUNCTION {schema}.add_to_bulk(of_bulk bigint, of_queues integer[], of_groups text[], as_seen text[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('operate', of_queues);
    UPDATE {schema}.bulk_operations AS one SET groups = one.groups + cardinality(of_groups)
    WHERE one.bulk_id = of_bulk AND one.begun_at IS NULL AND one.ended_at IS NULL AND of_queues <@ one.queue_ids;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'operation % takes no more groups, or none of these queues', of_bulk USING ERRCODE = 'insufficient_privilege';
    END IF;
    INSERT INTO {schema}.bulk_groups (bulk_id, queue_id, group_key, seen)
    SELECT of_bulk, told.queue_id, told.group_key, told.seen
    FROM unnest(of_queues, of_groups, as_seen) AS told (queue_id, group_key, seen);
END
$function$;

-- Begin an operation; answers whether it was waiting for that.
CREATE FUNCTION {schema}.begin_bulk(of_bulk bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('operate', coalesce(
        (SELECT known.queue_ids FROM {schema}.bulk_operations AS known WHERE known.bulk_id = of_bulk), ARRAY[-1]
    ));
    UPDATE {schema}.bulk_operations AS one
    SET begun_at = clock_timestamp(), ended_at = CASE WHEN one.groups = 0 THEN clock_timestamp() END
    WHERE one.bulk_id = of_bulk AND one.begun_at IS NULL AND one.ended_at IS NULL;
    RETURN FOUND;
END
$function$;

-- Claim an operation until the transaction ends, or the one that has waited longest, and answer with the next portion of its groups,
-- all of one queue. No row: nothing is to be done, others are at it, or the caller may not operate on its queues.
CREATE FUNCTION {schema}.claim_bulk(of_bulk bigint, at_most integer, at_most_alone integer) RETURNS TABLE (
    number bigint, action text, at_once boolean, actor text, reason text, of_queue integer, alone boolean, group_keys text[],
    as_seen text[]
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
#variable_conflict use_column
DECLARE
    one {schema}.bulk_operations;
    first record;
BEGIN
    PERFORM {schema}.permit('operate', '{{}}');
    SELECT * INTO one FROM {schema}.bulk_operations AS known
    WHERE known.begun_at IS NOT NULL AND known.ended_at IS NULL AND (of_bulk IS NULL OR known.bulk_id = of_bulk)
        AND ({schema}.is_owner() OR known.queue_ids <@ {schema}.permitted('operate'))
    ORDER BY coalesce(known.moved_at, known.begun_at), known.bulk_id
    LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    -- Groups that are acted on one by one come last.
    SELECT rest.alone, rest.queue_id INTO first FROM {schema}.bulk_groups AS rest
    WHERE rest.bulk_id = one.bulk_id AND rest.result IS NULL
    ORDER BY rest.alone, rest.queue_id, rest.group_key LIMIT 1;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT one.bulk_id, one.action, one.at_once, one.actor, one.reason, first.queue_id, first.alone,
        array_agg(next.group_key ORDER BY next.group_key), array_agg(next.seen ORDER BY next.group_key)
    FROM (
        SELECT rest.group_key, rest.seen FROM {schema}.bulk_groups AS rest
        WHERE rest.bulk_id = one.bulk_id AND rest.result IS NULL AND rest.alone = first.alone
            AND rest.queue_id = first.queue_id
        ORDER BY rest.group_key LIMIT CASE WHEN first.alone THEN at_most_alone ELSE at_most END
    ) AS next;
END
$function$;

-- Note what became of groups of an operation that the caller has claimed; of one without a result that it is acted on by itself. Where none
-- is left, the operation ends. Each group gets its result once.
CREATE FUNCTION {schema}.settle_bulk(
    of_bulk bigint, of_queue integer, of_groups text[], its_results text[], its_whys text[], of_operations bigint[]
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('operate', of_queue || coalesce(
        (SELECT known.queue_ids FROM {schema}.bulk_operations AS known WHERE known.bulk_id = of_bulk), ARRAY[-1]
    ));
    WITH settled AS (
        UPDATE {schema}.bulk_groups AS one
        SET result = told.result, why = told.why, operation_id = told.operation_id, alone = one.alone OR told.result IS NULL
        FROM unnest(of_groups, its_results, its_whys, of_operations) AS told (group_key, result, why, operation_id)
        WHERE one.bulk_id = of_bulk AND one.queue_id = of_queue AND one.group_key = told.group_key AND one.result IS NULL
        RETURNING one.result
    )
    UPDATE {schema}.bulk_operations AS one SET
        moved_at = clock_timestamp(), done = one.done + more.done, refused = one.refused + more.refused,
        changed = one.changed + more.changed,
        ended_at = CASE
            WHEN one.done + one.refused + one.changed + more.done + more.refused + more.changed = one.groups
            THEN clock_timestamp()
        END
    FROM (
        SELECT count(*) FILTER (WHERE settled.result = 'done') AS done,
            count(*) FILTER (WHERE settled.result = 'refused') AS refused,
            count(*) FILTER (WHERE settled.result = 'changed') AS changed
        FROM settled
    ) AS more
    WHERE one.bulk_id = of_bulk;
END
$function$;

-- Cancel an operation: the portion that is being done is finished, and then nothing more is done. Answers whether it wasn't over.
CREATE FUNCTION {schema}.cancel_bulk(of_bulk bigint, its_actor text, its_reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('operate', coalesce(
        (SELECT known.queue_ids FROM {schema}.bulk_operations AS known WHERE known.bulk_id = of_bulk), ARRAY[-1]
    ));
    UPDATE {schema}.bulk_operations AS one
    SET ended_at = clock_timestamp(), cancelled_by = its_actor, cancelled_because = its_reason
    WHERE one.bulk_id = of_bulk AND one.ended_at IS NULL;
    RETURN FOUND;
END
$function$;

-- As `record_events`, for events of several operators' actions, each with the number of its own.
CREATE FUNCTION {schema}.record_caused_events(
    of_queue integer, of_groups text[], its_kinds text[], its_firsts bigint[], its_lasts bigint[], its_counts bigint[],
    its_times bigint[], of_operations bigint[]
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit('judge', ARRAY[of_queue]);
    INSERT INTO {schema}.events (queue_id, group_key, incarnation, kind, first, last, count, at, operation_id)
    SELECT
        of_queue, told.group_key, coalesce(known.incarnation, 0), told.kind, told.first, told.last, told.count,
        to_timestamp(told.at / 1e6), told.operation_id
    FROM unnest(of_groups, its_kinds, its_firsts, its_lasts, its_counts, its_times, of_operations)
        WITH ORDINALITY AS told (group_key, kind, first, last, count, at, operation_id, nth)
    LEFT JOIN {schema}.known_groups AS known ON known.queue_id = of_queue AND known.group_key = told.group_key
    ORDER BY told.nth;
END
$function$;
