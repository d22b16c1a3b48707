-- Checksums of what was applied; triggers that fire for everybody; waits that end; the right to dispense; who it was.

-- The SHA-256 of each migration as it was applied: a box of another build isn't taken for one of this.
ALTER TABLE {schema}.migrations ADD COLUMN checksum text;

-- The migrations that were applied, and what they were.
CREATE FUNCTION {schema}.applied_migrations() RETURNS TABLE (number integer, checksum text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN QUERY SELECT one.number, one.checksum FROM {schema}.migrations AS one ORDER BY one.number;
END
$function$;

-- ---- Triggers. All of them fire in a session of a replica, too (`session_replication_role`): what is applied there
-- publishes, completes and ends as everybody does.

-- What goes with an instance or a side of a dialog. Their foreign keys say so too, but those of PostgreSQL's own triggers
-- are silent in a session of a replica, and nobody but a superuser may change that.
CREATE FUNCTION {schema}.drop_correlations() RETURNS trigger
LANGUAGE plpgsql
SET enable_seqscan = off
AS $function$
BEGIN
    DELETE FROM {schema}.correlations AS one USING gone WHERE one.instance_id = gone.instance_id;
    RETURN NULL;
END
$function$;
CREATE TRIGGER drop_correlations AFTER DELETE ON {schema}.known_instances
REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION {schema}.drop_correlations();

CREATE FUNCTION {schema}.drop_side() RETURNS trigger
LANGUAGE plpgsql
SET enable_seqscan = off
AS $function$
BEGIN
    DELETE FROM {schema}.transmission AS one USING gone WHERE one.handle = gone.handle;
    DELETE FROM {schema}.dialog_messages AS one USING gone WHERE one.handle = gone.handle;
    RETURN NULL;
END
$function$;
CREATE TRIGGER drop_side AFTER DELETE ON {schema}.endpoints
REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION {schema}.drop_side();

DO $all$
DECLARE
    fires record;
BEGIN
    FOR fires IN
        SELECT known.tgrelid::regclass AS of_table, known.tgname AS name
        FROM pg_trigger AS known JOIN pg_class AS of_table ON of_table.oid = known.tgrelid
        WHERE of_table.relnamespace = '{schema}'::regnamespace AND NOT known.tgisinternal
    LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', fires.of_table, fires.name);
    END LOOP;
END
$all$;

-- Number what transactions have published that have ended and haven't: somebody had switched the trigger off. They get
-- the next numbers of their locations, in the order in which they were published. Answers how many messages that were.
CREATE FUNCTION {schema}.number_left() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    numbered bigint;
BEGIN
    PERFORM {schema}.permit('route', ARRAY[]::integer[]);
    -- Of a transaction that goes on nobody else sees anything.
    WITH gone AS (
        DELETE FROM {schema}.arrivals WHERE transaction IS DISTINCT FROM pg_current_xact_id_if_assigned() RETURNING *
    ), again AS (
        INSERT INTO {schema}.arrivals (arrival_id, location, count, queue_ids, publisher, permitted)
        SELECT arrival_id, location, count, queue_ids, publisher, permitted FROM gone
        RETURNING count
    )
    SELECT coalesce(sum(count), 0) INTO numbered FROM again;
    RETURN numbered;
END
$function$;
SELECT {schema}.number_left();
SET CONSTRAINTS {schema}.number_at_commit IMMEDIATE;
SET CONSTRAINTS {schema}.number_at_commit DEFERRED;

-- ---- Locks. Whoever may log in to the database can take any advisory lock there, and keep it. So nobody waits for one
-- without end.

-- The lock of something that a box has once.
CREATE FUNCTION {schema}.lock_of(what text) RETURNS bigint
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN hashtextextended('seriatim ' || what, '{schema}'::regnamespace::oid::bigint);

-- For how long, in a session that has no `lock_timeout`.
CREATE FUNCTION {schema}.lock_patience() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN '10s';

-- Who has a lock, in words; NULL: nobody.
CREATE FUNCTION {schema}.holders_of(key bigint) RETURNS text
LANGUAGE plpgsql
AS $function$
BEGIN
    RETURN (
        SELECT string_agg(coalesce(
            format('process %s of the role "%s"', held.pid, worker.usename), 'a prepared transaction'
        ), ', ')
        FROM (
            SELECT pid FROM pg_locks
            WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND pid IS DISTINCT FROM pg_backend_pid()
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                AND (classid::bigint << 32) | objid::bigint = key
            ORDER BY pid LIMIT 3
        ) AS held LEFT JOIN pg_stat_activity AS worker ON worker.pid = held.pid
    );
END
$function$;

-- Wait for a lock that somebody else has, as long as `lock_timeout` of the session says, or else `lock_patience`; then say
-- who has it.
CREATE FUNCTION {schema}.wait_for_lock(key bigint, shared boolean, of_what text) RETURNS boolean
LANGUAGE plpgsql
AS $function$
DECLARE
    before text := current_setting('lock_timeout');
BEGIN
    IF before = '0' THEN
        PERFORM set_config('lock_timeout', {schema}.lock_patience(), TRUE);
    END IF;
    BEGIN
        IF shared THEN
            PERFORM pg_advisory_xact_lock_shared(key);
        ELSE
            PERFORM pg_advisory_xact_lock(key);
        END IF;
    EXCEPTION WHEN lock_not_available THEN
        RAISE EXCEPTION 'waited % for the lock on %, held by %', current_setting('lock_timeout'), of_what,
            coalesce({schema}.holders_of(key), 'another waiter')
        USING ERRCODE = 'lock_not_available', HINT = 'docs/how-to/roles.md';
    END;
    IF before = '0' THEN
        PERFORM set_config('lock_timeout', before, TRUE);
    END IF;
    RETURN TRUE;
END
$function$;

-- Take a lock until the transaction ends; mostly nobody has it.
CREATE FUNCTION {schema}.take_lock(key bigint, of_what text) RETURNS boolean
LANGUAGE plpgsql
AS $function$
BEGIN
    RETURN pg_try_advisory_xact_lock(key) OR {schema}.wait_for_lock(key, FALSE, of_what);
END
$function$;

-- Let one transaction at a time change what is defined.
CREATE FUNCTION {schema}.lock_definitions() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('subscribe', ARRAY[]::integer[]);
    PERFORM {schema}.take_lock({schema}.lock_of('definitions'), 'the definitions');
END
$function$;

-- The locks below nobody waits for. Roles take them through these functions: so the right to call those of PostgreSQL can
-- be taken from everybody but the owner of the box.

-- Be the one that does a chore, until the transaction ends, however long it does nothing.
CREATE FUNCTION {schema}.claim_chore(chore text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    PERFORM set_config(name, '0', TRUE) FROM pg_settings
    WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout');
    RETURN pg_try_advisory_xact_lock({schema}.lock_of('chore ' || chore));
END
$function$;

-- Take places that a queue has for readers, those of these that nobody has, for as long as the connection lasts.
CREATE FUNCTION {schema}.take_slots(of_queue integer, slots integer[]) RETURNS SETOF integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    RETURN QUERY SELECT slot FROM unnest(slots) AS slot
    WHERE pg_try_advisory_lock({schema}.lock_of('reader ' || of_queue || ' ' || slot));
END
$function$;

-- Give them back.
CREATE FUNCTION {schema}.leave_slots(of_queue integer, slots integer[]) RETURNS SETOF boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    RETURN QUERY SELECT pg_advisory_unlock({schema}.lock_of('reader ' || of_queue || ' ' || slot))
    FROM unnest(slots) AS slot;
END
$function$;

-- ---- Rights.

-- `dispense` is about a location.
ALTER TABLE {schema}.grants
    ADD COLUMN location text REFERENCES {schema}.locations ON DELETE CASCADE,
    DROP CONSTRAINT grants_may_check,
    DROP CONSTRAINT grants_check,
    DROP CONSTRAINT grants_role_may_queue_id_key,
    ADD CONSTRAINT grants_may_check CHECK (may IN ('publish', 'receive', 'subscribe', 'route', 'dispense')),
    ADD CONSTRAINT grants_queue_check CHECK ((queue_id IS NULL) = (may IN ('route', 'dispense'))),
    ADD CONSTRAINT grants_location_check CHECK ((location IS NOT NULL) = (may = 'dispense')),
    ADD CONSTRAINT grants_each_once UNIQUE NULLS NOT DISTINCT (role, may, queue_id, location);

-- Take a location's next numbers at once. Whoever does holds the location, and may turn its numbers over: so that is a
-- right of its own. With so many a call nobody comes to the end of the epochs.
CREATE OR REPLACE FUNCTION {schema}.take_numbers(
    at_location text, how_many bigint, OUT epoch bigint, OUT number bigint, OUT last_number bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    most bigint := greatest(1000000, coalesce(
        (SELECT place.last_number FROM {schema}.locations AS place WHERE place.location = at_location), 9007199254740991
    ));
BEGIN
    IF NOT {schema}.is_owner() AND NOT EXISTS (
        SELECT FROM {schema}.grants AS one
        WHERE one.may = 'dispense' AND one.location = at_location
            AND pg_has_role({schema}.caller(), one.role::oid, 'USAGE')
    ) THEN
        RAISE EXCEPTION 'the role "%" may not dispense tickets of the location "%"', {schema}.caller(), at_location USING
            ERRCODE = 'insufficient_privilege',
            HINT = 'seriatim box grant';
    END IF;
    IF (length(at_location) BETWEEN 1 AND 128) IS NOT TRUE THEN
        RAISE EXCEPTION 'the name of a location has 1 to 128 characters' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF (how_many BETWEEN 1 AND most) IS NOT TRUE THEN
        RAISE EXCEPTION '% tickets can''t be dispensed at once: 1 to %', coalesce(how_many::text, 'NULL'), most USING
            ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT run.epoch, run.number INTO epoch, number FROM {schema}.dispense(at_location, how_many) AS run;
    SELECT place.last_number INTO last_number
    FROM {schema}.locations AS place WHERE place.location = at_location;
END
$function$;

-- The groups, and the activations, of the instances that have added some values; a row for each, in order. A publisher
-- learns that of the queues that it may publish to. Where a value leads to another queue the message is refused, as it is
-- by a subscription, and the publisher learns no more.
CREATE OR REPLACE FUNCTION {schema}.led_by(of_queues integer[], properties text[], its_values text[])
RETURNS TABLE (led_to text, activation integer)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    sees_all boolean := {schema}.may_route();
BEGIN
    IF NOT sees_all THEN
        PERFORM {schema}.permit('publish', ARRAY[]::integer[]);
        PERFORM {schema}.permit('publish', ARRAY(
            SELECT DISTINCT added.queue_id
            FROM unnest(of_queues, properties, its_values) AS asked (queue_id, property, value)
            JOIN {schema}.correlations AS added
                ON added.queue_id = asked.queue_id AND added.property = asked.property COLLATE "C"
                AND added.value = asked.value COLLATE "C"
            JOIN {schema}.known_instances AS known USING (instance_id)
            JOIN {schema}.known_subscriptions AS one USING (subscription_id)
            WHERE one.state <> 'unenlisted'
        ));
    END IF;
    RETURN QUERY
    SELECT known.group_key, known.subscription_id
    FROM unnest(of_queues, properties, its_values) WITH ORDINALITY AS asked (queue_id, property, value, place)
    LEFT JOIN {schema}.correlations AS added
        ON added.queue_id = asked.queue_id AND added.property = asked.property COLLATE "C"
        AND added.value = asked.value COLLATE "C"
    LEFT JOIN {schema}.known_instances AS known USING (instance_id)
    ORDER BY asked.place;
END
$function$;

-- `actor` is what somebody says; `role` is who had logged in. What was written before says nothing of that.
ALTER TABLE {schema}.operator_log ADD COLUMN role text;
ALTER TABLE {schema}.operator_log ALTER COLUMN role SET DEFAULT session_user;

-- ---- As before, but for how they wait.

-- Take a location's next numbers, and hold the location until the transaction ends. A location that isn't known
-- begins at 1. The numbers are `how_many` from (epoch, number) on; after the last number comes 1 of the next epoch.
-- `stamp`: their place in the order of commit over all locations.
--
-- A plan that is made while the table is small must not be one that reads all of it when it is large. The settings for
-- that are those of the functions that call this one, for each costs every call something.
CREATE OR REPLACE FUNCTION {schema}.dispense(
    at_location text, how_many bigint, for_arrival bigint DEFAULT NULL,
    OUT epoch bigint, OUT number bigint, OUT stamp bigint
)
LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
    -- Not by PERFORM, which runs a query.
    locked boolean := pg_try_advisory_xact_lock({schema}.location_lock(at_location)) OR {schema}.wait_for_lock(
        {schema}.location_lock(at_location), FALSE, format('the location "%s"', at_location)
    );
BEGIN
    LOOP
        -- A statement of its own: its snapshot is younger than the lock.
        INSERT INTO {schema}.tickets AS given (location, epoch, number, count, arrival_id)
        SELECT
            place.location, coalesce(newest.epoch + newest.taken / place.last_number, 0),
            coalesce(newest.taken % place.last_number + 1, 1), how_many, for_arrival
        FROM {schema}.locations AS place LEFT JOIN LATERAL (
            SELECT run.epoch, run.number - 1 + run.count AS taken
            FROM {schema}.tickets AS run WHERE run.location = at_location
            ORDER BY run.epoch DESC, run.number DESC LIMIT 1
        ) AS newest ON TRUE
        WHERE place.location = at_location
        RETURNING given.epoch, given.number, given.stamp INTO epoch, number, stamp;
        EXIT WHEN FOUND;
        INSERT INTO {schema}.locations (location) VALUES (at_location) ON CONFLICT DO NOTHING;
    END LOOP;
END
$function$;

-- What is defined now, and what the caller routes by, stays in use until its transaction ends: who takes it away waits
-- for that. A transaction that keeps its snapshot fails where something was taken away, or stopped, that it still sees.
-- Answers with the version.
CREATE OR REPLACE FUNCTION {schema}.hold_definitions() RETURNS bigint
LANGUAGE plpgsql
AS $function$
DECLARE
    -- Not by PERFORM, which runs a query.
    held boolean := pg_try_advisory_xact_lock_shared({schema}.lock_of('publishers'))
        OR {schema}.wait_for_lock({schema}.lock_of('publishers'), TRUE, 'the definitions');
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM FROM {schema}.queues FOR SHARE;
        PERFORM FROM {schema}.known_subscriptions FOR SHARE;
    END IF;
    RETURN (SELECT version FROM {schema}.changes ORDER BY version DESC LIMIT 1);
END
$function$;

-- The next messages that wait to be routed, in order of commit: so many, and so many bytes of bodies, but one at least.
-- One transaction at a time routes. `permitted`: the queues that the publisher may publish to; NULL: all. `settled`,
-- `unsettled`: where to look, so that where little waits only that is read.
CREATE OR REPLACE FUNCTION {schema}.pending(at_most integer, at_most_bytes bigint, settled xid8, unsettled xid8[])
RETURNS TABLE (
    arrival_id bigint, "position" bigint, message_id text, type text, content_type text, context text, body bytea,
    received_at timestamptz, publisher text, permitted integer[]
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
#variable_conflict use_column
DECLARE
    near record;
BEGIN
    PERFORM {schema}.permit('route', ARRAY[]::integer[]);
    PERFORM {schema}.take_lock({schema}.lock_of('routing'), 'routing');
    -- Statements of their own: their snapshots are younger than the lock. What comes between the two waits longer.
    SELECT count(*) AS count, min(stamp) AS first_stamp INTO near FROM (
        (
            SELECT stamp FROM {schema}.to_route WHERE transaction >= settled ORDER BY transaction
        ) UNION ALL (
            SELECT stamp FROM {schema}.to_route WHERE transaction = ANY (unsettled)
        ) LIMIT at_most
    ) AS found;
    RETURN QUERY
    SELECT
        stored.arrival_id, stored.position::bigint, stored.message_id, stored.type, stored.content_type,
        stored.context::text,
        stored.body, stored.received_at, found.publisher, found.permitted
    FROM (
        SELECT
            waiting.*,
            sum(octet_length(stored.body)) OVER (ORDER BY waiting.stamp, waiting.position)
                - octet_length(stored.body) AS bytes_before
        FROM (
            SELECT * FROM {schema}.to_route
            WHERE stamp >= CASE WHEN near.count < at_most THEN near.first_stamp ELSE 0 END
            ORDER BY stamp, position LIMIT at_most
        ) AS waiting
        JOIN {schema}.spool AS stored
            ON stored.arrival_id = ANY (ARRAY[waiting.arrival_id]) AND stored.position = ANY (ARRAY[waiting.position])
    ) AS found
    JOIN {schema}.spool AS stored
        ON stored.arrival_id = ANY (ARRAY[found.arrival_id]) AND stored.position = ANY (ARRAY[found.position])
    WHERE found.bytes_before < at_most_bytes
    ORDER BY found.stamp, found.position;
END
$function$;

-- Make a queue a pipeline's own. Answers with the pipeline that has it, where it is another one's; with nothing where a
-- reader that isn't new is known no more. One that has never had a batch worked on makes way for a new one; one that has
-- does only for somebody who says so. What it had in hand and hadn't finished is the first that the new one gets.
CREATE OR REPLACE FUNCTION {schema}.claim_queue(
    of_queue integer, by_reader text, by_pipeline text, is_new boolean, takes_over boolean
) RETURNS text
LANGUAGE plpgsql
AS $function$
DECLARE
    known record;
    named text;
    keeps text;
BEGIN
    PERFORM {schema}.take_lock({schema}.lock_of('definitions'), 'the definitions');
    SELECT owner, coalesce(definition ->> 'keep', 'nothing') INTO named, keeps
    FROM {schema}.queues WHERE queue_id = of_queue FOR NO KEY UPDATE;
    SELECT reader, batch, done INTO known FROM {schema}.readers WHERE queue_id = of_queue;
    IF known.reader = by_reader THEN
        RETURN NULL;
    END IF;
    IF NOT is_new OR known.done > 0 AND NOT takes_over THEN
        RETURN coalesce(named, '');
    END IF;
    PERFORM {schema}.drop_batches(of_queue, known.done + 1, keeps);
    -- Its batches are numbered from 1 on: whether it has finished one is told by that.
    UPDATE {schema}.entries SET batch = batch - known.done WHERE queue_id = of_queue AND batch > 0 AND known.done > 0;
    INSERT INTO {schema}.readers (queue_id, reader, batch)
    VALUES (of_queue, by_reader, coalesce(known.batch - known.done, 0))
    ON CONFLICT (queue_id) DO UPDATE SET reader = excluded.reader, batch = excluded.batch, done = 0;
    IF named IS DISTINCT FROM by_pipeline THEN
        UPDATE {schema}.queues SET owner = by_pipeline WHERE queue_id = of_queue;
        INSERT INTO {schema}.changes (version, what)
        SELECT max(version) + 1, 'the pipeline ' || by_pipeline || ' reads a queue' FROM {schema}.changes;
    END IF;
    RETURN NULL;
END
$function$;

-- Give a queue back to workers: what its pipeline had in hand is queued again, in its place.
CREATE OR REPLACE FUNCTION {schema}.release_queue(of_queue integer) RETURNS boolean
LANGUAGE plpgsql
AS $function$
DECLARE
    known record;
    keeps text;
BEGIN
    PERFORM {schema}.take_lock({schema}.lock_of('definitions'), 'the definitions');
    SELECT coalesce(definition ->> 'keep', 'nothing') INTO keeps
    FROM {schema}.queues WHERE queue_id = of_queue FOR NO KEY UPDATE;
    SELECT reader, done INTO known FROM {schema}.readers WHERE queue_id = of_queue;
    IF NOT FOUND THEN
        RETURN FALSE;
    END IF;
    PERFORM {schema}.drop_batches(of_queue, known.done + 1, keeps);
    DELETE FROM {schema}.readers WHERE queue_id = of_queue;
    WITH back AS (
        UPDATE {schema}.entries SET
            status = CASE WHEN ordinal IS NULL THEN 'arrived' ELSE 'queued' END, batch = NULL
        WHERE queue_id = of_queue AND batch IS NOT NULL
        RETURNING group_key, rank
    )
    UPDATE {schema}.known_groups AS one SET ready_rank = least(one.ready_rank, first.rank)
    FROM (SELECT group_key, min(rank) AS rank FROM back GROUP BY group_key) AS first
    WHERE one.queue_id = of_queue AND one.group_key = first.group_key;
    UPDATE {schema}.queues SET owner = NULL WHERE queue_id = of_queue;
    INSERT INTO {schema}.changes (version, what)
    SELECT max(version) + 1, 'no pipeline reads a queue any more' FROM {schema}.changes;
    RETURN TRUE;
END
$function$;

-- Forget groups of a queue that were idle since before a moment, from a key on, in steps of so many: they leave no row,
-- and one that comes again begins in a higher incarnation. Those that somebody has, or that have anything to wait for, that
-- an operator or a fault has stopped, or whose instance runs, stay. Answers how many, and behind which key it goes on;
-- NULL: that was all.
CREATE OR REPLACE FUNCTION {schema}.forget_expired(
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
    PERFORM {schema}.take_lock({schema}.lock_of('definitions'), 'the definitions');
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

-- Lock the groups of some dialogs, in the order of their ids; what the transaction has begun itself nobody else knows.
CREATE OR REPLACE FUNCTION {schema}.lock_dialogs(handles uuid[]) RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $function$
DECLARE
    wanted bigint[];
    locked bigint[] := ARRAY[]::bigint[];
BEGIN
    LOOP
        SELECT coalesce(array_agg(one.lock ORDER BY one.group_id, one.queue_id), ARRAY[]::bigint[]) INTO wanted FROM (
            SELECT DISTINCT
                known.group_id, known.queue_id, {schema}.group_lock(known.queue_id, known.group_id::text) AS lock
            FROM {schema}.endpoints AS known
            WHERE known.handle = ANY (handles) AND known.begun_by <> pg_current_xact_id()
        ) AS one;
        -- A dialog may have been moved while its group was waited for.
        EXIT WHEN wanted <@ locked;
        PERFORM {schema}.take_lock(one, 'a conversation group') FROM unnest(wanted) AS one;
        locked := wanted;
    END LOOP;
END
$function$;

-- Begin a dialog, or a monolog to several services. Answers with its handle, or with why it is refused.
CREATE OR REPLACE FUNCTION {schema}.try_begin(
    from_service text, to_services text[], by_contract text, lifetime interval, related_to uuid, in_group uuid,
    its_priority integer, encryption boolean, is_monolog boolean, given uuid,
    OUT handle uuid, OUT refused text, OUT what text, OUT remedy text
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $function$
#variable_conflict use_variable
DECLARE
    own record;
    related record;
    its_group uuid := in_group;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[]::integer[]);
    PERFORM {schema}.hold_definitions();
    SELECT known.queue_id, coalesce((known.definition ->> 'retention')::boolean, FALSE) AS retains INTO own
    FROM {schema}.services AS known WHERE known.service = from_service COLLATE "C";
    refused := 'usage';
    IF own IS NULL THEN
        what := format('there is no service "%s"', left(from_service, 300));
        remedy := 'a dialog begins at a service of this box: define it';
        RETURN;
    END IF;
    PERFORM {schema}.permit('receive', ARRAY[own.queue_id]);
    IF NOT EXISTS (SELECT FROM {schema}.contracts AS known WHERE known.contract = by_contract COLLATE "C") THEN
        what := format('there is no contract "%s"', left(by_contract, 300));
        remedy := 'define it';
        RETURN;
    END IF;
    IF NOT coalesce(its_priority BETWEEN 1 AND 10, FALSE) THEN
        what := 'a priority is from 1 to 10';
        RETURN;
    END IF;
    IF lifetime <= '0' THEN
        what := 'a lifetime is more than 0';
        RETURN;
    END IF;
    IF coalesce(cardinality(to_services), 0) = 0 THEN
        what := 'the monolog has no service that it goes to';
        remedy := 'name those that listen';
        RETURN;
    END IF;
    IF EXISTS (
        SELECT FROM unnest(to_services) AS one WHERE coalesce(length(one), 0) NOT BETWEEN 1 AND 128
    ) OR cardinality(to_services) <> (SELECT count(DISTINCT one) FROM unnest(to_services) AS one) THEN
        what := 'a service''s name has 1 to 128 characters, and each is given once';
        RETURN;
    END IF;
    IF related_to IS NOT NULL AND in_group IS NOT NULL THEN
        what := 'related_to and group say the same';
        remedy := 'give one of them';
        RETURN;
    END IF;
    IF related_to IS NOT NULL THEN
        PERFORM {schema}.lock_dialogs(ARRAY[related_to]);
        SELECT known.queue_id, known.group_id INTO related
        FROM {schema}.endpoints AS known WHERE known.handle = related_to AND known.state <> 'CD';
        IF related IS NULL THEN
            what := format('there is no dialog with the handle %s', related_to);
            RETURN;
        END IF;
        IF related.queue_id <> own.queue_id THEN
            what := 'the related dialog has another queue';
            remedy := 'a conversation group is of one queue';
            RETURN;
        END IF;
        its_group := related.group_id;
    ELSIF in_group IS NOT NULL THEN
        PERFORM {schema}.take_lock({schema}.group_lock(own.queue_id, in_group::text), 'a conversation group');
    END IF;
    handle := coalesce(given, gen_random_uuid());
    INSERT INTO {schema}.endpoints (
        handle, conversation_id, is_initiator, is_monolog, service, queue_id, to_services, contract, group_id, state,
        priority, encryption, retains, expires_at
    ) VALUES (
        handle, gen_random_uuid(), TRUE, is_monolog, from_service, own.queue_id, to_services, by_contract,
        coalesce(its_group, gen_random_uuid()), 'SO', its_priority, coalesce(encryption, FALSE), own.retains,
        clock_timestamp() + lifetime
    ) ON CONFLICT ON CONSTRAINT endpoints_pkey DO NOTHING;
    IF NOT FOUND THEN
        what := format('there is a dialog with the handle %s already', handle);
        remedy := 'let the box give the handle';
        handle := NULL;
        RETURN;
    END IF;
    refused := NULL;
END
$function$;

-- Send messages of one type in one dialog, where nothing stands in their way: both sides are there, the other one's queue
-- has no limit, nothing of the dialog waits on its way, and nobody keeps the messages. Else it answers FALSE and has
-- changed nothing, and `try_send` looks at each of them. The caller has seen that no body is missing, or too large.
CREATE OR REPLACE FUNCTION {schema}.send_straight(of_handle uuid, kind text, content_types text[], bodies bytea[]) RETURNS boolean
LANGUAGE plpgsql
AS $function$
DECLARE
    messages bigint := cardinality(bodies);
    one record;
    base bigint;
    rank bigint;
    arrival bigint;
    told jsonb;
BEGIN
    IF kind IN ('EndDialog', 'Error', 'Timer') THEN
        RETURN FALSE;
    END IF;
    FOR attempt IN 1..2 LOOP
        SELECT
            own.queue_id AS own_queue, own.group_id AS own_group, own.state, own.is_initiator,
            own.service AS own_service, rule.becomes, far.handle, far.conversation_id, far.service, far.queue_id, far.group_id, far.contract,
            far.priority,
            CASE WHEN own.begun_by <> pg_current_xact_id() THEN
                {schema}.take_lock({schema}.group_lock(own.queue_id, own.group_id::text), 'a conversation group')
            END AS locked
        INTO one
        FROM {schema}.endpoints AS own
        JOIN {schema}.dialog_rules AS rule ON rule.verb = 'send' AND rule.state = own.state AND rule.refusal IS NULL
        JOIN {schema}.contracts AS agreed ON agreed.contract = own.contract
        JOIN {schema}.endpoints AS far
            ON far.conversation_id = own.conversation_id AND far.is_initiator <> own.is_initiator
            AND far.service = own.to_services[1] COLLATE "C"
        JOIN {schema}.queues AS place ON place.queue_id = far.queue_id
        WHERE own.handle = of_handle AND NOT own.is_monolog AND NOT own.retains AND NOT far.retains
            AND far.state IN ('SO', 'SI', 'CO', 'DI') AND place.definition ->> 'max_messages' IS NULL
            AND agreed.definition -> 'types' ->> kind IN (
                'any', CASE WHEN own.is_initiator THEN 'initiator' ELSE 'target' END
            )
            AND NOT EXISTS (
                SELECT FROM {schema}.transmission AS before
                WHERE before.to_service = far.service AND before.handle = own.handle
            )
        FOR KEY SHARE OF far;
        EXIT WHEN FOUND OR attempt = 2;
        -- With its first message a dialog gets its other side, unless that would be refused. One that the transaction
        -- itself has begun nobody else ends meanwhile.
        PERFORM {schema}.add_targets(ARRAY[of_handle])
        FROM {schema}.endpoints AS own JOIN {schema}.contracts AS agreed USING (contract)
        WHERE own.handle = of_handle AND own.begun_by = pg_current_xact_id() AND own.state = 'SO'
            AND NOT own.is_monolog AND NOT own.retains
            AND (own.expires_at > clock_timestamp()) IS NOT FALSE
            AND agreed.definition -> 'types' ->> kind IN ('any', 'initiator');
        EXIT WHEN NOT FOUND;
    END LOOP;
    IF one.handle IS NULL THEN
        RETURN FALSE;
    END IF;
    PERFORM {schema}.permit('receive', ARRAY[one.own_queue]);
    PERFORM {schema}.permit('publish', ARRAY[one.queue_id]);
    -- While its group was waited for it may have been moved, or the other side has ended.
    UPDATE {schema}.endpoints AS own SET send_sequence = own.send_sequence + messages, state = one.becomes
    WHERE own.handle = of_handle AND own.group_id = one.own_group AND own.state = one.state
        AND (own.expires_at > clock_timestamp()) IS NOT FALSE
    RETURNING own.send_sequence - messages INTO base;
    IF NOT FOUND THEN
        RETURN FALSE;
    END IF;
    INSERT INTO {schema}.arrivals (location, count, queue_ids) VALUES (one.service, messages, ARRAY[one.queue_id])
    RETURNING arrival_id INTO arrival;
    rank := {schema}.now_us() - (one.priority - 5) * 10000000;
    told := jsonb_build_object('dialog', jsonb_build_object(
        'handle', one.handle, 'conversation_id', one.conversation_id, 'service', one.service,
        'far_service', one.own_service, 'contract', one.contract, 'is_initiator', NOT one.is_initiator,
        'is_monolog', FALSE
    ));
    INSERT INTO {schema}.spool (arrival_id, position, message_id, type, content_type, context, body, destinations)
    SELECT
        arrival, message.place - 1, message.message_id, kind, message.content_type,
        jsonb_set(told, '{{dialog,sequence}}', to_jsonb(base + message.place - 1)), message.body, 1
    FROM ROWS FROM (unnest(content_types, bodies), {schema}.new_message_ids(messages)) WITH ORDINALITY
        AS message (content_type, body, message_id, place);
    INSERT INTO {schema}.entries (queue_id, group_key, rank, arrival_id, position, priority)
    SELECT one.queue_id, one.group_id::text, rank, arrival, position, one.priority
    FROM generate_series(0, messages - 1) AS position;
    RETURN TRUE;
END
$function$;

-- Move a side into another conversation group, with what waits for it: there it is judged anew, by arrival.
CREATE OR REPLACE FUNCTION {schema}.try_move(
    of_handle uuid, to_group uuid, in_hand text[], OUT refused text, OUT what text, OUT remedy text
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    own record;
    moved bigint;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[]::integer[]);
    SELECT known.queue_id, known.group_id INTO own FROM {schema}.endpoints AS known WHERE known.handle = of_handle;
    IF own.group_id > to_group THEN
        PERFORM {schema}.take_lock({schema}.group_lock(own.queue_id, to_group::text), 'a conversation group');
    END IF;
    PERFORM {schema}.lock_dialogs(ARRAY[of_handle]);
    PERFORM {schema}.take_lock({schema}.group_lock(own.queue_id, to_group::text), 'a conversation group');
    -- Whoever sends to it reads where it is, and holds its row meanwhile.
    PERFORM FROM {schema}.endpoints AS known WHERE known.handle = of_handle FOR UPDATE;
    SELECT known.*, rule.refusal INTO own FROM {schema}.endpoints AS known
    JOIN {schema}.dialog_rules AS rule
        ON rule.verb = 'move' AND rule.state = {schema}.state_now(known.state, known.expires_at)
    WHERE known.handle = of_handle;
    IF NOT FOUND THEN
        refused := 'usage';
        what := format('there is no dialog with the handle %s', of_handle);
        RETURN;
    END IF;
    PERFORM {schema}.permit('receive', ARRAY[own.queue_id]);
    IF own.refusal IS NOT NULL THEN
        refused := 'refused';
        what := format('the dialog %s can''t be moved: %s', of_handle, own.refusal);
        RETURN;
    END IF;
    UPDATE {schema}.endpoints AS known SET group_id = to_group WHERE known.handle = of_handle;
    UPDATE {schema}.entries AS entry SET
        group_key = to_group::text, status = 'arrived', ordinal = NULL, arrival = NULL, late = FALSE, waits = FALSE
    FROM {schema}.spool AS stored
    WHERE entry.queue_id = own.queue_id AND entry.group_key = own.group_id::text
        AND stored.arrival_id = ANY (ARRAY[entry.arrival_id]) AND stored.position = ANY (ARRAY[entry.position])
        AND stored.context -> 'dialog' ->> 'handle' = of_handle::text AND stored.message_id <> ALL (in_hand);
    GET DIAGNOSTICS moved = ROW_COUNT;
    IF moved > 0 THEN
        INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
        VALUES (own.queue_id, own.group_id::text, 'look', {schema}.now_us());
    END IF;
END
$function$;

-- Turn a queue off because a handler failed for good, and write down who did and why.
CREATE OR REPLACE FUNCTION {schema}.stop_queue(of_queue integer, of_group text, of_worker text, why text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    stopped text;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    PERFORM {schema}.take_lock({schema}.lock_of('definitions'), 'the definitions');
    UPDATE {schema}.queues SET enabled = FALSE WHERE queue_id = of_queue AND enabled RETURNING queue INTO stopped;
    IF stopped IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO {schema}.changes (version, what)
    SELECT max(version) + 1, format('turned off queue %s: %s', stopped, why) FROM {schema}.changes;
    INSERT INTO {schema}.operator_log (actor, action, queue, group_key, reason)
    VALUES (of_worker, 'stop', stopped, of_group, why);
END
$function$;
