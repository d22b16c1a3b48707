-- A message of an unordered queue with a gate that failed for good stops itself alone: nobody waits for it but its place.

-- `faulted`: its handler failed for good. It stays, and so its place stays open, until an operator retries it or takes it out.
ALTER DOMAIN {schema}.entry_status DROP CONSTRAINT entry_status_check;
ALTER DOMAIN {schema}.entry_status ADD CONSTRAINT entry_status_check
CHECK (VALUE IN ('arrived', 'held', 'queued', 'in_hand', 'placed', 'faulted'));

CREATE INDEX entries_faulted ON {schema}.entries (queue_id, group_key) WHERE status = 'faulted';

-- The handler of messages failed for good: they are faulted by themselves.
CREATE FUNCTION {schema}.fault_messages(of_queue integer, of_entries bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit_entries(of_queue, of_entries);
    UPDATE {schema}.entries AS entry SET status = 'faulted', visible_at = NULL
    WHERE entry.entry_id = ANY (of_entries) AND entry.queue_id = of_queue AND entry.status = 'arrived';
END
$function$;

-- Messages that are faulted, or wait for their next attempt, are handed out again from now on. Those that somebody has in hand, or
-- that are neither, are left out. Returns the others.
CREATE FUNCTION {schema}.retry_messages(of_queue integer, of_entries bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    free bigint[];
BEGIN
    PERFORM {schema}.permit('operate', ARRAY[of_queue]);
    free := ARRAY(
        SELECT entry.entry_id FROM {schema}.entries AS entry
        WHERE entry.entry_id = ANY (of_entries) AND entry.queue_id = of_queue AND (
            entry.status = 'faulted' OR entry.status = 'arrived' AND entry.attempt > 0
                AND entry.visible_at > clock_timestamp() AND entry.visible_at < 'infinity'
        )
        FOR UPDATE SKIP LOCKED
    );
    UPDATE {schema}.entries AS entry SET status = 'arrived', visible_at = NULL WHERE entry.entry_id = ANY (free);
    RETURN free;
END
$function$;

-- See 0020. `faulted`: messages that are stopped by themselves.
CREATE OR REPLACE VIEW {schema}.queue_counts AS
SELECT
    place.queue,
    place.definition -> 'policy' ->> 'name' AS policy,
    place.enabled,
    place.owner,
    entry.arrived,
    entry.held,
    entry.queued,
    entry.in_hand,
    aside.late,
    aside.duplicate,
    aside.invalid,
    aside.rejected,
    aside.dead,
    to_timestamp(entry.oldest_us / 1e6) AS oldest,
    {schema}.whole_number(place.definition -> 'max_messages') AS max_messages,
    entry.faulted
FROM {schema}.queues AS place
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE status = 'arrived') AS arrived,
        count(*) FILTER (WHERE status IN ('held', 'placed')) AS held,
        count(*) FILTER (WHERE status = 'queued') AS queued,
        count(*) FILTER (WHERE status = 'in_hand') AS in_hand,
        min(rank + (priority - 5) * 10000000) AS oldest_us,
        count(*) FILTER (WHERE status = 'faulted') AS faulted
    FROM {schema}.entries AS one WHERE one.queue_id = place.queue_id
) AS entry
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE disposition = 'late') AS late,
        count(*) FILTER (WHERE disposition = 'duplicate') AS duplicate,
        count(*) FILTER (WHERE disposition = 'invalid') AS invalid,
        count(*) FILTER (WHERE disposition = 'rejected') AS rejected,
        count(*) FILTER (WHERE disposition = 'dead') AS dead
    FROM {schema}.aside AS one WHERE one.queue_id = place.queue_id
) AS aside;
CREATE OR REPLACE VIEW {schema}.seen_queue_counts WITH (security_barrier) AS
SELECT * FROM {schema}.queue_counts
WHERE queue IN (
    SELECT known.queue FROM {schema}.queues AS known WHERE known.queue_id = ANY ((SELECT {schema}.sees('see'))::integer[])
);

-- These functions and this view know it; the rest of each stays as it is. Of such queues what failed is named by its entries, each
-- with its own group. In the view `failed`: the message is faulted by itself; `place_open`: a result waits for its place.
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
                'note_fault', $q$entry.queue_id = of_queue AND entry.group_key = of_group;
    INSERT INTO$q$,
                $q$entry.queue_id = of_queue AND entry.group_key = coalesce(of_group, entry.group_key);
    INSERT INTO$q$
            ),
            ('note_fault', $q$        of_queue, of_group, entry.entry_id$q$, $q$        of_queue, entry.group_key, entry.entry_id$q$),
            (
                'note_fault', $q$entry.queue_id = of_queue AND entry.group_key = of_group
    RETURNING$q$, $q$entry.queue_id = of_queue AND entry.group_key = coalesce(of_group, entry.group_key)
    RETURNING$q$
            ),
            (
                'set_dead', $q$entry.queue_id = of_queue AND entry.group_key = of_group$q$,
                $q$entry.queue_id = of_queue AND entry.group_key = coalesce(of_group, entry.group_key)$q$
            ),
            ('take_out', $q$entry.status = 'arrived'$q$, $q$entry.status IN ('arrived', 'faulted')$q$),
            ('wrong_entries', $q$known.definition #>> '{{policy,name}}', one.group_key$q$, $q$CASE
                WHEN known.definition #>> '{{policy,name}}' = 'unordered' AND known.definition ->> 'gate' IS NOT NULL THEN 'fifo'
                ELSE known.definition #>> '{{policy,name}}'
            END, one.group_key$q$),
            -- There it is alone, and gets no number.
            ('take_in_one', $q$WHERE known.queue_id = of_queue;
        END IF;
$q$, $q$WHERE known.queue_id = of_queue;
            IF wrong IS NULL AND {schema}.numbering(ARRAY[of_queue]) IS NOT NULL THEN
                wrong := 'messages of this queue are numbered: they are taken in by take_in';
            END IF;
        END IF;
$q$)
        ) AS wanted (name, old, new)
    LOOP
        SELECT fn.oid INTO STRICT known FROM pg_proc AS fn
        WHERE fn.pronamespace = '{schema}'::regnamespace AND fn.proname = one.name;
        before := pg_get_functiondef(known);
        IF (length(before) - length(replace(before, one.old, ''))) <> length(one.old) THEN
            RAISE EXCEPTION 'not once in %: %', one.name, one.old;
        END IF;
        EXECUTE replace(before, one.old, one.new);
    END LOOP;
    before := pg_get_viewdef('{schema}.not_done'::regclass);
    now_is := replace(before, $q$WHEN ((fact.until IS NOT NULL) AND (fact.attempt > 0)) THEN 'retry'::text$q$, $q$WHEN entry.status = 'faulted' THEN 'failed'
            WHEN entry.status = 'placed' THEN 'place_open'
            WHEN ((fact.until IS NOT NULL) AND (fact.attempt > 0)) THEN 'retry'::text$q$);
    IF now_is = before THEN
        RAISE EXCEPTION 'not in not_done: %', before;
    END IF;
    EXECUTE 'CREATE OR REPLACE VIEW {schema}.not_done AS ' || now_is;
END
$all$;
