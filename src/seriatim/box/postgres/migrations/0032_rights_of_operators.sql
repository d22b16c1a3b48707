-- The rights of operators: `see`, `see_bodies` and `operate`, each for a queue.

ALTER TABLE {schema}.grants
    DROP CONSTRAINT grants_may_check,
    ADD CONSTRAINT grants_may_check CHECK (
        may IN ('publish', 'receive', 'subscribe', 'route', 'dispense', 'see', 'see_bodies', 'operate')
    );

-- The rights that give leave for something: one's own, or another that has it in it. `judge` and `read` aren't granted:
-- receivers judge groups and read messages as well.
CREATE FUNCTION {schema}.giving(what text) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE what
    WHEN 'see' THEN ARRAY['see', 'see_bodies', 'operate']
    WHEN 'judge' THEN ARRAY['receive', 'operate']
    WHEN 'read' THEN ARRAY['receive', 'see_bodies']
    ELSE ARRAY[what]
END;

CREATE OR REPLACE FUNCTION {schema}.permitted(what text) RETURNS integer[]
LANGUAGE sql STABLE
RETURN ARRAY(
    SELECT DISTINCT queue_id FROM {schema}.grants
    WHERE may = ANY ({schema}.giving(what)) AND pg_has_role({schema}.caller(), role::oid, 'USAGE') ORDER BY queue_id
);

-- Refuse a caller that hasn't a right for all of these queues, or has it for none at all; say which, and who can grant it.
CREATE OR REPLACE FUNCTION {schema}.permit(what text, queue_ids integer[]) RETURNS void
LANGUAGE plpgsql STABLE
AS $function$
DECLARE
    granted integer[];
    verb text := CASE what
        WHEN 'publish' THEN 'publish to' WHEN 'receive' THEN 'receive from' WHEN 'subscribe' THEN 'subscribe for'
        WHEN 'judge' THEN 'receive from' WHEN 'read' THEN 'see bodies of' WHEN 'see_bodies' THEN 'see bodies of'
        WHEN 'operate' THEN 'operate on' ELSE what END;
    named text := CASE what WHEN 'judge' THEN 'receive' WHEN 'read' THEN 'see_bodies' ELSE what END;
    missing integer;
    place text;
BEGIN
    IF {schema}.is_owner() THEN
        RETURN;
    END IF;
    granted := {schema}.permitted(what);
    IF cardinality(granted) > 0 AND queue_ids <@ granted THEN
        RETURN;
    END IF;
    SELECT one INTO missing FROM unnest(queue_ids) AS one WHERE NOT ARRAY[one] <@ granted LIMIT 1;
    place := coalesce((SELECT known.queue FROM {schema}.queues AS known WHERE known.queue_id = missing), missing::text);
    RAISE EXCEPTION 'the role "%" may not % %', {schema}.caller(), verb, CASE WHEN place IS NULL THEN 'any queue' ELSE format('the queue "%s"', place) END
    USING
        ERRCODE = 'insufficient_privilege',
        HINT = format(
            'the right "%s" is missing; the owner of the message box, "%s", can grant it: seriatim box grant %s --%s%s', named,
            current_user, {schema}.caller(), replace(named, '_', '-'),
            CASE WHEN named = 'route' THEN '' ELSE ' ' || coalesce(place, 'QUEUE') END
        );
END
$function$;

-- Refuse a caller that hasn't a right for a queue, or names entries that are in another one.
CREATE FUNCTION {schema}.permit_entries_for(what text, of_queue integer, entry_ids bigint[]) RETURNS void
LANGUAGE plpgsql STABLE
AS $function$
BEGIN
    IF {schema}.is_owner() THEN
        RETURN;
    END IF;
    PERFORM {schema}.permit(what, ARRAY[of_queue]);
    IF EXISTS (
        SELECT FROM {schema}.entries AS entry WHERE entry.entry_id = ANY (entry_ids) AND entry.queue_id <> of_queue
    ) THEN
        RAISE EXCEPTION 'these entries are in another queue' USING ERRCODE = 'insufficient_privilege';
    END IF;
END
$function$;

-- What judges a group without handing messages out is for operators, too; what reads bodies is for those who see them.
-- Only the check of each function changes; the rest of it stays as it is.
DO $all$
DECLARE
    one record;
    before text;
    now_is text;
BEGIN
    FOR one IN
        SELECT known.oid, wanted.what FROM pg_proc AS known JOIN (VALUES
            ('turn_groups', 'judge'), ('turn_entries', 'judge'), ('turn_requests', 'judge'),
            ('decide', 'judge'), ('set_dead', 'judge'), ('drop_lease', 'judge'), ('behind_holes', 'judge'),
            ('handed', 'handed'), ('edited', 'read'), ('parts_of', 'read')
        ) AS wanted (name, what) ON wanted.name = known.proname
        WHERE known.pronamespace = '{schema}'::regnamespace
    LOOP
        before := pg_get_functiondef(one.oid);
        now_is := replace(before, 'permit(''receive'',', format('permit(''%s'',', one.what));
        now_is := replace(
            now_is, 'permit_entries(', CASE one.what
                WHEN 'handed' THEN
                    'permit_entries_for(CASE WHEN of_entries = ''{{}}'' THEN ''judge'' ELSE ''receive'' END, '
                ELSE format('permit_entries_for(''%s'', ', one.what) END
        );
        IF now_is = before THEN
            RAISE EXCEPTION '% looks at no right', one.oid::regprocedure;
        END IF;
        EXECUTE now_is;
    END LOOP;
END
$all$;

-- The queues that the caller has a right for; all of them where it is the owner. What the views below show.
CREATE FUNCTION {schema}.sees(what text) RETURNS integer[]
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF {schema}.is_owner() THEN
        RETURN ARRAY(SELECT queue_id FROM {schema}.queues);
    END IF;
    RETURN {schema}.permitted(what);
END
$function$;

-- Refuse a caller that may not look at a queue, by its number or its name, or at any queue where none is named. A name that
-- no queue has is refused by nobody: nothing is seen there.
CREATE FUNCTION {schema}.look(what text, of_queue integer, named text) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF what NOT IN ('see', 'see_bodies') THEN
        RAISE EXCEPTION 'nobody looks by the right "%"', what USING ERRCODE = 'insufficient_privilege';
    END IF;
    PERFORM {schema}.permit(what, ARRAY(
        SELECT known.queue_id FROM {schema}.queues AS known WHERE known.queue = named OR known.queue_id = of_queue
    ));
END
$function$;

-- ---- What operators see: of each table that a look reads the rows of their queues. A name has `seen_` before that of its
-- table, and the same columns. Bodies and properties are NULL where the role doesn't see them.

CREATE VIEW {schema}.seen_entries WITH (security_barrier) AS
SELECT * FROM {schema}.entries WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);

CREATE VIEW {schema}.seen_known_groups WITH (security_barrier) AS
SELECT * FROM {schema}.known_groups WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);

-- Without its activation, which may name a port with its secrets.
CREATE VIEW {schema}.seen_queues WITH (security_barrier) AS
SELECT queue_id, queue, definition - 'activation' AS definition, enabled, owner, incarnation, activated
FROM {schema}.queues WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);

CREATE VIEW {schema}.seen_aside WITH (security_barrier) AS
SELECT * FROM {schema}.aside WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);

CREATE VIEW {schema}.seen_history WITH (security_barrier) AS
SELECT * FROM {schema}.history WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);

CREATE VIEW {schema}.seen_known_subscriptions WITH (security_barrier) AS
SELECT * FROM {schema}.known_subscriptions WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);

CREATE VIEW {schema}.seen_leases WITH (security_barrier) AS
SELECT * FROM {schema}.leases WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);

CREATE VIEW {schema}.seen_requests WITH (security_barrier) AS
SELECT * FROM {schema}.requests WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);

CREATE VIEW {schema}.seen_faults WITH (security_barrier) AS
SELECT * FROM {schema}.faults WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);

CREATE VIEW {schema}.seen_waiters WITH (security_barrier) AS
SELECT * FROM {schema}.waiters WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);

CREATE VIEW {schema}.seen_known_workers WITH (security_barrier) AS
SELECT * FROM {schema}.known_workers WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);

CREATE VIEW {schema}.seen_operator_log WITH (security_barrier) AS
SELECT * FROM {schema}.operator_log
WHERE queue IN (SELECT known.queue FROM {schema}.queues AS known WHERE known.queue_id = ANY ({schema}.sees('see')));

CREATE VIEW {schema}.seen_queue_counts WITH (security_barrier) AS
SELECT * FROM {schema}.queue_counts
WHERE queue IN (SELECT known.queue FROM {schema}.queues AS known WHERE known.queue_id = ANY ({schema}.sees('see')));

CREATE VIEW {schema}.seen_workers WITH (security_barrier) AS
SELECT * FROM {schema}.workers
WHERE queue IN (SELECT known.queue FROM {schema}.queues AS known WHERE known.queue_id = ANY ({schema}.sees('see')));

CREATE VIEW {schema}.seen_message_places WITH (security_barrier) AS
SELECT * FROM {schema}.message_places
WHERE queue IN (SELECT known.queue FROM {schema}.queues AS known WHERE known.queue_id = ANY ({schema}.sees('see')));

-- The messages that these queues have or keep.
CREATE VIEW {schema}.messages_seen AS
SELECT
    kept.arrival_id, kept.position, bool_or(kept.queue_id = ANY ((SELECT {schema}.sees('see_bodies'))::integer[])) AS with_body
FROM (
    SELECT arrival_id, position, queue_id FROM {schema}.entries
    UNION ALL
    SELECT arrival_id, position, queue_id FROM {schema}.aside
    UNION ALL
    SELECT arrival_id, position, queue_id FROM {schema}.history
) AS kept
WHERE kept.queue_id = ANY ((SELECT {schema}.sees('see'))::integer[])
GROUP BY kept.arrival_id, kept.position;

CREATE VIEW {schema}.seen_spool WITH (security_barrier) AS
SELECT
    stored.arrival_id,
    stored.position,
    stored.message_id,
    stored.type,
    stored.content_type,
    CASE WHEN kept.with_body THEN stored.context END AS context,
    CASE WHEN kept.with_body THEN stored.body END AS body,
    stored.received_at,
    stored.destinations,
    stored.visible_at,
    CASE WHEN kept.with_body THEN stored.property_types END AS property_types,
    stored.parts,
    stored.id_space
FROM {schema}.spool AS stored JOIN {schema}.messages_seen AS kept USING (arrival_id, position);

CREATE VIEW {schema}.seen_stored_messages WITH (security_barrier) AS
SELECT
    stored.arrival_id,
    stored.position,
    stored.message_id,
    stored.id_space,
    stored.type,
    run.location,
    run.epoch + (run.number - 1 + stored.position) / place.last_number AS epoch,
    (run.number - 1 + stored.position) % place.last_number + 1 AS number,
    run.stamp,
    stored.content_type,
    stored.received_at,
    stored.context,
    stored.property_types,
    stored.body,
    stored.destinations,
    stored.parts
FROM {schema}.seen_spool AS stored
JOIN {schema}.tickets AS run USING (arrival_id)
JOIN {schema}.locations AS place USING (location);

CREATE VIEW {schema}.seen_tickets WITH (security_barrier) AS
SELECT run.* FROM {schema}.tickets AS run
WHERE run.arrival_id IN (SELECT kept.arrival_id FROM {schema}.messages_seen AS kept);

CREATE VIEW {schema}.seen_message_parts WITH (security_barrier) AS
SELECT part.* FROM {schema}.message_parts AS part JOIN {schema}.messages_seen AS kept USING (arrival_id, position)
WHERE kept.with_body;

-- These work on tables of the owner's, and then show a role its queues.
ALTER VIEW {schema}.stopped_groups SET (security_invoker = false);
CREATE VIEW {schema}.seen_stopped_groups WITH (security_barrier) AS
SELECT * FROM {schema}.stopped_groups WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);

ALTER VIEW {schema}.not_done SET (security_invoker = false);
CREATE VIEW {schema}.seen_not_done WITH (security_barrier) AS
SELECT * FROM {schema}.not_done WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);

-- State and correlations are what handlers took out of bodies.
CREATE VIEW {schema}.seen_instances WITH (security_barrier) AS
SELECT
    one.instance_id, one.queue, one.group_key, one.status, one.subscription, one.starts,
    CASE WHEN place.queue_id = ANY ((SELECT {schema}.sees('see_bodies'))::integer[]) THEN one.correlations ELSE '{{}}' END
        AS correlations,
    one.waiting,
    CASE WHEN place.queue_id = ANY ((SELECT {schema}.sees('see_bodies'))::integer[]) THEN one.state ELSE '{{}}' END AS state,
    one.version, one.started_at, one.changed_at
FROM {schema}.instances AS one JOIN {schema}.queues AS place USING (queue)
WHERE place.queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);

-- What is in no queue, and how long something is kept: for the owner. A look finds nothing there.
CREATE VIEW {schema}.seen_unrouted WITH (security_barrier) AS SELECT * FROM {schema}.unrouted WHERE FALSE;
CREATE VIEW {schema}.seen_to_route WITH (security_barrier) AS SELECT * FROM {schema}.to_route WHERE FALSE;
CREATE VIEW {schema}.seen_message_ids WITH (security_barrier) AS SELECT * FROM {schema}.message_ids WHERE FALSE;
CREATE VIEW {schema}.seen_keeping WITH (security_barrier) AS SELECT * FROM {schema}.keeping;

-- Let a role call what looks by itself whether it may, and with a right of operators read what shows only its queues.
-- Called again after a migration, for what that has made.
CREATE OR REPLACE FUNCTION {schema}.let_in(who regrole) RETURNS void
LANGUAGE plpgsql
AS $function$
DECLARE
    door regprocedure;
    seen regclass;
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA %s TO %s', '{schema}'::regnamespace, who);
    FOR door IN
        SELECT oid FROM pg_proc
        WHERE pronamespace = '{schema}'::regnamespace AND prosecdef AND prorettype <> 'trigger'::regtype
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', door, who);
    END LOOP;
    IF NOT EXISTS (SELECT FROM {schema}.grants WHERE role = who AND may = ANY ({schema}.giving('see'))) THEN
        RETURN;
    END IF;
    FOR seen IN
        SELECT oid FROM pg_class
        WHERE relnamespace = '{schema}'::regnamespace AND relkind = 'v' AND starts_with(relname, 'seen_')
    LOOP
        EXECUTE format('GRANT SELECT ON %s TO %s', seen, who);
    END LOOP;
    -- What looks compute with: it runs as the role itself, and so reads no more than that.
    FOR door IN
        SELECT oid FROM pg_proc
        WHERE pronamespace = '{schema}'::regnamespace AND NOT prosecdef
            AND (provolatile = 'i' OR proname IN ('group_lock', 'lock_of', 'now_us'))
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', door, who);
    END LOOP;
END
$function$;

-- Take that back.
CREATE OR REPLACE FUNCTION {schema}.shut_out(who regrole) RETURNS void
LANGUAGE plpgsql
AS $function$
BEGIN
    EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA %s FROM %s', '{schema}'::regnamespace, who);
    EXECUTE format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA %s FROM %s', '{schema}'::regnamespace, who);
    EXECUTE format('REVOKE ALL ON SCHEMA %s FROM %s', '{schema}'::regnamespace, who);
END
$function$;

-- ---- What operators do.

-- Lock a group for an operator, who waits so long.
CREATE FUNCTION {schema}.lock_for_operator(
    of_queue integer, of_group text, patience_ms integer,
    OUT locked boolean, OUT now_us bigint, OUT isolation text, OUT version bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('operate', ARRAY[of_queue]);
    locked := {schema}.lock_patiently(of_queue, of_group, patience_ms);
    now_us := {schema}.now_us();
    isolation := current_setting('transaction_isolation');
    version := (SELECT max(change.version) FROM {schema}.changes AS change);
END
$function$;

-- Let messages of a queue be handed out at once. The caller has the lock of their group.
CREATE FUNCTION {schema}.see_now(of_queue integer, of_entries bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit_entries_for('operate', of_queue, of_entries);
    UPDATE {schema}.entries AS entry SET visible_at = NULL
    WHERE entry.entry_id = ANY (of_entries) AND entry.queue_id = of_queue AND entry.visible_at IS NOT NULL;
END
$function$;

-- Put another body in the place of that of an entry. Whoever does sees bodies.
CREATE FUNCTION {schema}.edit_body(of_queue integer, of_entry bigint, of_body bytea, its_actor text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('see_bodies', ARRAY[of_queue]);
    PERFORM {schema}.permit_entries_for('operate', of_queue, ARRAY[of_entry]);
    INSERT INTO {schema}.edited_bodies (entry_id, body, edited_by)
    SELECT entry.entry_id, of_body, its_actor
    FROM {schema}.entries AS entry WHERE entry.entry_id = of_entry AND entry.queue_id = of_queue;
END
$function$;

-- Ask something of a group that is locked; its next turn obeys.
CREATE FUNCTION {schema}.request(of_queue integer, of_group text, its_action text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('operate', ARRAY[of_queue]);
    INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
    VALUES (of_queue, of_group, its_action, {schema}.now_us());
END
$function$;

-- Call everybody who waits for a message of some queues.
CREATE FUNCTION {schema}.call_all_waiters(of_queues integer[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    called text;
BEGIN
    PERFORM {schema}.permit('judge', of_queues);
    FOR called IN
        DELETE FROM {schema}.waiters WHERE waiter_id IN (
            SELECT waiter_id FROM {schema}.waiters WHERE queue_id = ANY (of_queues) FOR UPDATE SKIP LOCKED
        ) RETURNING channel
    LOOP
        PERFORM pg_notify(called, '');
    END LOOP;
END
$function$;

-- Write down what an operator did; PostgreSQL adds the role. Without a queue that is the owner's.
CREATE FUNCTION {schema}.log_operation(
    its_actor text, its_action text, of_queue text, of_group text, its_reason text, its_details jsonb
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    number bigint;
BEGIN
    IF NOT {schema}.is_owner() THEN
        PERFORM {schema}.permit('operate', ARRAY[coalesce(
            (SELECT known.queue_id FROM {schema}.queues AS known WHERE known.queue = of_queue), -1
        )]);
    END IF;
    INSERT INTO {schema}.operator_log (actor, action, queue, group_key, reason, details)
    VALUES (its_actor, its_action, of_queue, of_group, its_reason, its_details)
    RETURNING operation_id INTO number;
    RETURN number;
END
$function$;

-- What decides where messages of one group go that were set aside: their own numbers, and how many of those that were
-- released after each are still there and were not delivered; in the order in which they go. A group that was forgotten
-- since, alone or with others of its queue, has given its ordinals anew; one that is not there is as if it were new. What
-- isn't set aside like that any more is left out. Their rows are locked, under the lock of their group.
CREATE FUNCTION {schema}.requeue_facts(of_queue integer, of_group text, of_entries bigint[], its_dispositions text[])
RETURNS TABLE (
    entry_id bigint, disposition text, sequence bigint, ordinal bigint, following bigint, last_ordinal bigint,
    undelivered bigint, forgotten boolean, is_known boolean
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit('operate', ARRAY[of_queue]);
    RETURN QUERY
    SELECT
        one.entry_id,
        one.disposition,
        one.sequence,
        one.ordinal,
        coalesce(known.next, 0) AS following,
        coalesce(known.ordinal, 0) AS last_ordinal,
        CASE WHEN one.ordinal IS NULL THEN 0 ELSE (
            SELECT count(*) FROM {schema}.entries AS other
            WHERE other.queue_id = one.queue_id AND other.group_key = one.group_key AND other.status = 'queued'
                AND other.ordinal > one.ordinal
        ) + (
            SELECT count(*) FROM {schema}.aside AS other
            WHERE other.queue_id = one.queue_id AND other.group_key = one.group_key AND other.disposition = 'dead'
                AND other.ordinal > one.ordinal
        ) END AS undelivered,
        EXISTS (
            SELECT FROM {schema}.operator_log AS log
            WHERE log.queue = place.queue AND (log.group_key = one.group_key OR log.group_key IS NULL)
                AND log.action = 'forget' AND log.at >= one.aside_at
        ) AS forgotten,
        known.group_key IS NOT NULL AS is_known
    FROM {schema}.aside AS one
    JOIN {schema}.queues AS place USING (queue_id)
    LEFT JOIN {schema}.known_groups AS known ON known.queue_id = one.queue_id AND known.group_key = one.group_key
    WHERE one.entry_id = ANY (of_entries) AND one.queue_id = of_queue AND one.group_key = of_group
        AND one.disposition = ANY (its_dispositions)
    ORDER BY one.ordinal NULLS LAST, one.sequence, one.entry_id
    FOR UPDATE OF one;
END
$function$;

-- `requeue`, for operators.
CREATE FUNCTION {schema}.requeue_entries(
    of_queue integer, of_group text, of_entries bigint[], its_statuses text[], its_ordinals bigint[], to_the_end boolean[]
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('operate', ARRAY[of_queue]);
    RETURN {schema}.requeue(of_queue, of_group, of_entries, its_statuses, its_ordinals, to_the_end);
END
$function$;

-- Write down which messages of one group were put back, a row for each; answers, by their entries, with the numbers of the
-- rows and with what each is now.
CREATE FUNCTION {schema}.log_requeue(
    its_actor text, its_reason text, of_queue integer, of_group text, of_entries bigint[], its_dispositions text[],
    its_places text[]
)
RETURNS TABLE (operation_id bigint, entry_id bigint, place text, status text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    its_queue text := (SELECT known.queue FROM {schema}.queues AS known WHERE known.queue_id = of_queue);
BEGIN
    PERFORM {schema}.permit('operate', ARRAY[of_queue]);
    RETURN QUERY
    WITH moved AS (
        SELECT
            goes.*, coalesce(entry.status, refused.disposition) AS now,
            coalesce(entry.arrival_id, refused.arrival_id) AS arrival_id, coalesce(entry.position, refused.position) AS position
        FROM unnest(
            of_entries, its_dispositions, its_places
        ) WITH ORDINALITY AS goes (entry_id, status, place, nth)
        LEFT JOIN {schema}.entries AS entry ON entry.entry_id = goes.entry_id AND entry.queue_id = of_queue
        LEFT JOIN {schema}.aside AS refused ON refused.entry_id = goes.entry_id AND refused.queue_id = of_queue
    ), logged AS (
        INSERT INTO {schema}.operator_log (actor, action, queue, group_key, reason, details)
        SELECT
            its_actor, 'requeue', its_queue, of_group, its_reason,
            jsonb_build_object(
                'entry_id', moved.entry_id, 'message_id', stored.message_id, 'status', moved.status, 'place', moved.place
            )
        FROM moved JOIN {schema}.spool AS stored USING (arrival_id, position)
        ORDER BY moved.nth
        RETURNING operation_id, (details ->> 'entry_id')::bigint AS entry_id
    )
    SELECT logged.operation_id, moved.entry_id, moved.place, moved.now
    FROM logged JOIN moved USING (entry_id)
    ORDER BY moved.nth;
END
$function$;

-- `forget`, for operators.
CREATE FUNCTION {schema}.forget_group(of_queue integer, of_group text, fresh bigint[]) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('operate', ARRAY[of_queue]);
    RETURN {schema}.forget(of_queue, of_group, fresh);
END
$function$;
