-- Producers that begin anew: a group counts what arrives below its next number, and begins anew when an operator says so.

-- As in the kernel's state: how many messages below the next number count, and the number of the last of them.
ALTER TABLE {schema}.known_groups
ADD COLUMN suspects bigint NOT NULL DEFAULT 0,
ADD COLUMN suspect bigint NOT NULL DEFAULT -9223372036854775808;
CREATE INDEX groups_suspected ON {schema}.known_groups (queue_id, group_key) WHERE suspects > 0;
CREATE OR REPLACE VIEW {schema}.seen_known_groups WITH (security_barrier) AS
SELECT * FROM {schema}.known_groups WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);

-- Of a message that counted: the ordinal of its group then. It is that of its present count if the group has the same.
ALTER TABLE {schema}.aside ADD COLUMN counted bigint;
CREATE OR REPLACE VIEW {schema}.seen_aside WITH (security_barrier) AS
SELECT * FROM {schema}.aside WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);

-- These functions carry the counts along; the rest of each stays as it is. Groups with a count are among those that stand.
DO $all$
DECLARE
    one record;
    known oid;
    before text;
    now_is text;
BEGIN
    FOR one IN
        SELECT * FROM (VALUES
            (
                'decide', TRUE, $q$aside_ordinals bigint[], obeyed_ids bigint[])$q$,
                $q$aside_ordinals bigint[], aside_counted bigint[], obeyed_ids bigint[])$q$
            ),
            ('decide', FALSE, $q$arrivals, decided, due_at, ready_rank
    )$q$, $q$arrivals, decided, due_at, ready_rank, suspects, suspect
    )$q$),
            ('decide', FALSE, $q$new.decided::bigint[], new.due_at, new.ready_rank
$q$, $q$new.decided::bigint[], new.due_at, new.ready_rank, states[at + 10], states[at + 11]
$q$),
            ('decide', FALSE, $q$(place::integer - 1) * 9 AS at$q$, $q$(place::integer - 1) * 11 AS at$q$),
            (
                'decide', FALSE, $q$ready_rank = excluded.ready_rank, touched_at$q$,
                $q$ready_rank = excluded.ready_rank, suspects = excluded.suspects, suspect = excluded.suspect, touched_at$q$
            ),
            ('decide', FALSE, $q$aside_reasons, aside_ordinals)
                AS judged (entry_id, disposition, reason, ordinal)$q$, $q$aside_reasons, aside_ordinals, aside_counted)
                AS judged (entry_id, disposition, reason, ordinal, counted)$q$),
            ('decide', FALSE, $q$judged.ordinal AS left_as$q$, $q$judged.ordinal AS left_as, judged.counted$q$),
            ('decide', FALSE, $q$subscription_ids, ordinal, late, attempt
        )$q$, $q$subscription_ids, ordinal, late, attempt, counted
        )$q$),
            ('decide', FALSE, $q$subscription_ids, left_as, late, attempt
$q$, $q$subscription_ids, left_as, late, attempt, counted
$q$),
            ('turn_groups', FALSE, $q$since, reports, clock]$q$, $q$since, reports, clock, suspects, suspect]$q$),
            (
                'forget', FALSE, $q$clock = fresh[9],$q$,
                $q$clock = fresh[9], suspects = fresh[10], suspect = fresh[11],$q$
            ),
            ('groups_after', FALSE, $q$                ) UNION (
                    -- An operator has asked$q$, $q$                ) UNION (
                    -- Its producer may have begun anew.
                    SELECT known.group_key FROM {schema}.known_groups AS known
                    WHERE known.queue_id = place.queue_id AND known.suspects > 0
                        AND known.group_key > later AND known.group_key >= lowest AND known.group_key < below
                        AND (pattern IS NULL OR known.group_key LIKE pattern)
                    ORDER BY known.group_key LIMIT most - taken
                ) UNION (
                    -- An operator has asked$q$)
        ) AS wanted (name, anew, old, new)
    LOOP
        SELECT fn.oid INTO STRICT known FROM pg_proc AS fn
        WHERE fn.pronamespace = '{schema}'::regnamespace AND fn.proname = one.name;
        before := pg_get_functiondef(known);
        IF (length(before) - length(replace(before, one.old, ''))) <> length(one.old) THEN
            RAISE EXCEPTION 'not once in %: %', one.name, one.old;
        END IF;
        now_is := replace(before, one.old, one.new);
        IF one.anew THEN -- with other arguments
            EXECUTE format('DROP FUNCTION %s', known::regprocedure);
        END IF;
        EXECUTE now_is;
    END LOOP;
END
$all$;

-- Begin the next incarnation of a group, which the caller has locked: the messages of its present count are taken back from
-- those that were set aside, as held messages before all others, in order of arrival; answers how many. The kernel then
-- judges them from the start.
CREATE FUNCTION {schema}.bring_back(of_queue integer, of_group text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
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
            entry_id, queue_id, group_key, status, rank, arrival_id, position, sequence, size, priority,
            subscription_ids, attempt, late, waits, arrival, arrived_us
        )
        SELECT
            gone.entry_id, gone.queue_id, gone.group_key, 'held',
            (extract(epoch FROM stored.received_at) * 1000000)::bigint - (gone.priority - 5) * 10000000,
            gone.arrival_id, gone.position, gone.sequence, gone.size, gone.priority, gone.subscription_ids,
            gone.attempt, TRUE, TRUE, row_number() OVER (ORDER BY gone.entry_id) - count(*) OVER (), {schema}.now_us()
        FROM gone JOIN {schema}.spool AS stored USING (arrival_id, position)
    )
    SELECT
        count(*) AS messages,
        count(*) FILTER (WHERE gone.disposition = 'late') AS late,
        count(*) FILTER (WHERE gone.disposition = 'duplicate') AS duplicate,
        count(*) FILTER (WHERE gone.disposition = 'invalid') AS invalid
    INTO moved FROM gone;
    UPDATE {schema}.known_groups AS known SET
        incarnation = known.incarnation + 1,
        decided[3] = known.decided[3] - moved.late, decided[4] = known.decided[4] - moved.duplicate,
        decided[5] = known.decided[5] - moved.invalid
    WHERE known.queue_id = of_queue AND known.group_key = of_group;
    RETURN moved.messages;
END
$function$;
