-- What a box keeps, for how long, and how what nobody refers to any more goes.
-- {schema} is the name of the box.

-- What holds for the whole box; one row. `message_ids_for`: how long a message that is published again is recognised.
-- `swept_through`: where the sweep over the tickets was left.
CREATE TABLE {schema}.keeping (
    single boolean PRIMARY KEY DEFAULT TRUE CHECK (single),
    message_ids_for interval NOT NULL DEFAULT '7 days' CHECK (message_ids_for > '0'),
    swept_through bigint NOT NULL DEFAULT 0
);
INSERT INTO {schema}.keeping DEFAULT VALUES;

-- References to messages that are gone: each may have been the last one of its message. Written by whoever takes a
-- reference away, in the same transaction; read by the clean-up, which then looks whether another one is left. So it
-- never has to look at the whole spool, and whoever completes needs no lock on the message that others refer to, too.
CREATE TABLE {schema}.dropped (
    drop_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    arrival_id bigint NOT NULL,
    position bigint NOT NULL
);

CREATE INDEX message_ids_by_age ON {schema}.message_ids (published_at);

-- By queue and age: that is how it goes.
ALTER TABLE {schema}.history DROP CONSTRAINT history_pkey;
ALTER TABLE {schema}.history ADD PRIMARY KEY (queue_id, done_at, entry_id);

-- Whoever deletes rows of these tables leaves a note of it, and need not know.
CREATE FUNCTION {schema}.note_dropped() RETURNS trigger
LANGUAGE plpgsql
AS $function$
BEGIN
    INSERT INTO {schema}.dropped (arrival_id, position) SELECT arrival_id, position FROM gone;
    RETURN NULL;
END
$function$;

CREATE TRIGGER note_dropped AFTER DELETE ON {schema}.aside
REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION {schema}.note_dropped();

CREATE TRIGGER note_dropped AFTER DELETE ON {schema}.unrouted
REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION {schema}.note_dropped();

CREATE TRIGGER note_dropped AFTER DELETE ON {schema}.to_route
REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION {schema}.note_dropped();

CREATE TRIGGER note_dropped AFTER DELETE ON {schema}.history
REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION {schema}.note_dropped();

-- What was handed out is done: it goes, or is kept as history. A message with a single destination goes with it; of one
-- with more, nobody who completes can tell whether he is the last, so that is left to the clean-up.
DROP FUNCTION {schema}.complete(integer, bigint[], bigint[], boolean[], integer, boolean);
CREATE FUNCTION {schema}.complete(
    of_queue integer, entry_ids bigint[], ordinals bigint[], lates boolean[], of_incarnation integer, keep text
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- A plan that is made while the spool is small must not be one that reads all of it when it is large.
SET enable_seqscan = off
AS $function$
DECLARE
    arrivals bigint[];
    positions bigint[];
    alone bigint;
BEGIN
    PERFORM {schema}.permit_entries(of_queue, entry_ids);
    IF keep = 'nothing' THEN
        WITH done AS (
            DELETE FROM {schema}.entries WHERE entry_id = ANY (entry_ids) RETURNING arrival_id, position
        ), alone AS (
            DELETE FROM {schema}.spool AS stored USING done
            WHERE stored.arrival_id = done.arrival_id AND stored.position = done.position AND stored.destinations = 1
            RETURNING stored.position
        )
        SELECT array_agg(done.arrival_id), array_agg(done.position), (SELECT count(*) FROM alone)
        INTO arrivals, positions, alone FROM done;
    ELSIF keep = 'everything' THEN
        WITH done AS (
            DELETE FROM {schema}.entries AS entry USING unnest(entry_ids, ordinals, lates)
                AS handed (entry_id, ordinal, late)
            WHERE entry.entry_id = handed.entry_id
            RETURNING entry.*, handed.ordinal AS handed_ordinal, handed.late AS handed_late
        )
        INSERT INTO {schema}.history (
            entry_id, queue_id, group_key, incarnation, ordinal, late, arrival_id, position, sequence,
            subscription_ids, attempt
        )
        SELECT
            entry_id, queue_id, group_key, of_incarnation, handed_ordinal, handed_late, arrival_id, position, sequence,
            subscription_ids, attempt
        FROM done;
    ELSE
        WITH done AS (
            DELETE FROM {schema}.entries AS entry USING unnest(entry_ids, ordinals, lates)
                AS handed (entry_id, ordinal, late)
            WHERE entry.entry_id = handed.entry_id
            RETURNING entry.*, handed.ordinal AS handed_ordinal, handed.late AS handed_late
        ), kept AS (
            INSERT INTO {schema}.history (
                entry_id, queue_id, group_key, incarnation, ordinal, late, arrival_id, position, sequence,
                subscription_ids, attempt
            )
            SELECT
                entry_id, queue_id, group_key, of_incarnation, handed_ordinal, handed_late, arrival_id, position,
                sequence, subscription_ids, attempt
            FROM done WHERE attempt > 0
        ), alone AS (
            DELETE FROM {schema}.spool AS stored USING done
            WHERE stored.arrival_id = done.arrival_id AND stored.position = done.position AND stored.destinations = 1
                AND done.attempt = 0
            RETURNING stored.position
        )
        SELECT array_agg(done.arrival_id), array_agg(done.position), (SELECT count(*) FROM alone)
        INTO arrivals, positions, alone FROM done WHERE attempt = 0;
    END IF;
    IF cardinality(arrivals) > alone THEN
        INSERT INTO {schema}.dropped (arrival_id, position)
        SELECT arrival_id, position FROM unnest(arrivals, positions) AS done (arrival_id, position)
        WHERE EXISTS (
            SELECT FROM {schema}.spool AS stored
            WHERE stored.arrival_id = done.arrival_id AND stored.position = done.position
        );
    END IF;
END
$function$;

-- Make the part of the history for a day (UTC). Answers FALSE where it is there already, or where rows of that day are
-- in the rest, which then stay there.
CREATE FUNCTION {schema}.add_history_day(of_day date) RETURNS boolean
LANGUAGE plpgsql
AS $function$
DECLARE
    part text := 'history_' || to_char(of_day, 'YYYYMMDD');
    begins timestamptz := of_day::timestamp AT TIME ZONE 'UTC';
    ends timestamptz := (of_day + 1)::timestamp AT TIME ZONE 'UTC';
BEGIN
    IF to_regclass(format('{schema}.%I', part)) IS NOT NULL OR EXISTS (
        SELECT FROM {schema}.history_rest WHERE done_at >= begins AND done_at < ends
    ) THEN
        RETURN FALSE;
    END IF;
    -- Made apart and then attached: that lets readers and writers of the other parts go on.
    EXECUTE format('CREATE TABLE {schema}.%I (LIKE {schema}.history INCLUDING DEFAULTS)', part);
    EXECUTE format(
        'ALTER TABLE {schema}.history ATTACH PARTITION {schema}.%I FOR VALUES FROM (%L) TO (%L)', part, begins, ends
    );
    RETURN TRUE;
END
$function$;

-- The days that have a part of the history of their own.
CREATE FUNCTION {schema}.history_days() RETURNS SETOF date
LANGUAGE sql STABLE
AS $function$
    SELECT to_date(right(class.relname, 8), 'YYYYMMDD')
    FROM pg_inherits AS part JOIN pg_class AS class ON class.oid = part.inhrelid
    WHERE part.inhparent = '{schema}.history'::regclass AND class.relname ~ '^history_\d{{8}}$'
    ORDER BY 1
$function$;

-- Empty the part of a day at once, unless one of the queues that keep what they did that day has something in it.
-- Answers how many rows went; NULL if it stays.
CREATE FUNCTION {schema}.empty_history_day(of_day date, staying integer[]) RETURNS bigint
LANGUAGE plpgsql
SET enable_seqscan = off
AS $function$
DECLARE
    part text := 'history_' || to_char(of_day, 'YYYYMMDD');
    stays boolean;
    emptied bigint;
BEGIN
    -- Looked at before, so that a day which stays is never locked, and under the lock. Nobody writes into a day that is
    -- over, but a transaction that began on it.
    FOR look IN 1..2 LOOP
        EXECUTE format(
            'SELECT EXISTS (SELECT FROM unnest($1) AS queue (queue_id) WHERE EXISTS ('
            'SELECT FROM {schema}.%I AS done WHERE done.queue_id = queue.queue_id))', part
        ) INTO stays USING staying;
        IF stays THEN
            RETURN NULL;
        END IF;
        EXECUTE format('LOCK TABLE {schema}.%I IN ACCESS EXCLUSIVE MODE', part);
    END LOOP;
    EXECUTE format(
        'INSERT INTO {schema}.dropped (arrival_id, position) SELECT arrival_id, position FROM {schema}.%I', part
    );
    GET DIAGNOSTICS emptied = ROW_COUNT;
    IF emptied > 0 THEN
        EXECUTE format('TRUNCATE {schema}.%I', part);
    END IF;
    RETURN emptied;
END
$function$;

-- Take the part of a day away, if it is empty. It waits for no more than a moment (`lock_timeout` of the caller):
-- others would wait behind it.
CREATE FUNCTION {schema}.drop_history_day(of_day date) RETURNS boolean
LANGUAGE plpgsql
AS $function$
DECLARE
    part text := 'history_' || to_char(of_day, 'YYYYMMDD');
    used boolean;
BEGIN
    FOR look IN 1..2 LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM {schema}.%I)', part) INTO used;
        IF used THEN
            RETURN FALSE;
        END IF;
        LOCK TABLE ONLY {schema}.history IN ACCESS EXCLUSIVE MODE;
    END LOOP;
    EXECUTE format('DROP TABLE {schema}.%I', part);
    RETURN TRUE;
END
$function$;

-- Begin a group anew that has nothing: as if it were unknown, but in its next incarnation. The caller has its lock.
-- Answers with the new incarnation, or NULL where it isn't known; then there is nothing to forget.
CREATE FUNCTION {schema}.forget(of_queue integer, of_group text, fresh bigint[]) RETURNS integer
LANGUAGE sql
AS $function$
    UPDATE {schema}.groups SET
        incarnation = incarnation + 1, flags = fresh[1], first = fresh[2], next = fresh[3], mark = fresh[4],
        last = fresh[5], ordinal = fresh[6], since = fresh[7], reports = fresh[8], clock = fresh[9],
        skipped = '{{}}', due_at = NULL, ready_rank = NULL, touched_at = now()
    WHERE queue_id = of_queue AND group_key = of_group
    RETURNING incarnation
$function$;

-- Nobody but the owner.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC;
