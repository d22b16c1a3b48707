-- Clean-up: what goes when nobody needs it any more.

-- What holds for the whole box; one row. `message_ids_for`: how long a message that is published again is recognised.
-- `swept_through`: where the sweep over the tickets was left. `faults_for`: how long faults are kept.
CREATE TABLE {schema}.keeping (
    single boolean PRIMARY KEY DEFAULT TRUE CHECK (single),
    message_ids_for interval NOT NULL DEFAULT '7 days' CHECK (message_ids_for > '0'),
    swept_through bigint NOT NULL DEFAULT 0,
    faults_for interval NOT NULL DEFAULT '30 days' CHECK (faults_for >= '0')
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
    UPDATE {schema}.known_groups SET
        incarnation = incarnation + 1, flags = fresh[1], first = fresh[2], next = fresh[3], mark = fresh[4],
        last = fresh[5], ordinal = fresh[6], since = fresh[7], reports = fresh[8], clock = fresh[9],
        skipped = '{{}}', due_at = NULL, ready_rank = NULL, touched_at = now()
    WHERE queue_id = of_queue AND group_key = of_group
    RETURNING incarnation
$function$;

-- How large the tables were, now and then, for a week: what has come since then. Estimates of PostgreSQL's, as the sizes
-- that it is compared with. Written by the clean-up.
CREATE TABLE {schema}.samples (
    taken_at timestamptz NOT NULL DEFAULT now(),
    name text NOT NULL,
    rows bigint NOT NULL,
    size_bytes bigint NOT NULL,
    PRIMARY KEY (taken_at, name)
);

-- Forget groups of a queue that were idle since before a moment, from a key on, in steps of so many: they leave no row,
-- and one that comes again begins in a higher incarnation. Those that somebody has, or that have anything to wait for, that
-- an operator or a fault has stopped, or whose instance runs, stay. Answers how many, and behind which key it goes on;
-- NULL: that was all.
CREATE FUNCTION {schema}.forget_expired(
    of_queue integer, before timestamptz, after_key text, how_many integer, OUT forgotten bigint, OUT through text
)
LANGUAGE plpgsql
AS $function$
DECLARE
    candidates text[];
    mine text[];
    latest integer;
BEGIN
    SELECT array_agg(group_key ORDER BY group_key), count(*) INTO candidates, forgotten FROM (
        SELECT group_key FROM {schema}.known_groups
        WHERE queue_id = of_queue AND group_key > after_key AND touched_at < before
            AND ready_rank IS NULL AND due_at IS NULL AND flags & 24 = 0
        ORDER BY group_key LIMIT how_many
    ) AS idle;
    through := CASE WHEN forgotten = how_many THEN candidates[how_many] END;
    forgotten := 0;
    IF candidates IS NULL THEN
        RETURN;
    END IF;
    -- Before the groups, as everybody takes it who takes both.
    PERFORM pg_advisory_xact_lock(hashtextextended('seriatim definitions', '{schema}'::regnamespace::oid::bigint));
    SELECT array_agg(group_key) INTO mine FROM unnest(candidates) AS wanted (group_key)
    WHERE pg_try_advisory_xact_lock({schema}.group_lock(of_queue, group_key));
    -- A statement of its own: what it sees is younger than the locks.
    WITH gone AS (
        DELETE FROM {schema}.known_groups AS known
        WHERE known.queue_id = of_queue AND known.group_key = ANY (mine) AND known.touched_at < before
            AND known.ready_rank IS NULL AND known.due_at IS NULL AND known.flags & 24 = 0
            AND NOT EXISTS (
                SELECT FROM {schema}.entries AS entry
                WHERE entry.queue_id = of_queue AND entry.group_key = known.group_key
            ) AND NOT EXISTS (
                SELECT FROM {schema}.requests AS request
                WHERE request.queue_id = of_queue AND request.group_key = known.group_key
            ) AND NOT EXISTS (
                SELECT FROM {schema}.known_instances AS instance
                WHERE instance.queue_id = of_queue AND instance.group_key = known.group_key
            )
        RETURNING known.incarnation
    )
    SELECT count(*), max(incarnation) + 1 INTO forgotten, latest FROM gone;
    UPDATE {schema}.queues SET incarnation = latest WHERE queue_id = of_queue AND incarnation < latest;
    IF FOUND THEN
        INSERT INTO {schema}.changes (version, what)
        SELECT max(version) + 1, 'groups of a queue that had expired were forgotten' FROM {schema}.changes;
    END IF;
END
$function$;
