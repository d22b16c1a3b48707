-- What is declared, and roles: who may do what with it.
--
-- A role has no right on any table, view or sequence. What it may call is SECURITY DEFINER: it does its work as the
-- owner of the box, and looks first whether the role may. All else is the owner's.

-- What messages may look like: promoted properties, and how a body is checked; by the words of the declaration.
CREATE TABLE {schema}.types (
    type text COLLATE "C" PRIMARY KEY CHECK (length(type) BETWEEN 1 AND 128),
    definition jsonb NOT NULL
);

-- Named, ordered destinations. `owner`: the pipeline that a queue belongs to, if it is one's. `incarnation`: that of a
-- group which isn't known; higher than any of a group that was forgotten and left no row.
CREATE TABLE {schema}.queues (
    queue_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue text COLLATE "C" NOT NULL UNIQUE CHECK (length(queue) BETWEEN 1 AND 128),
    definition jsonb NOT NULL,
    enabled boolean NOT NULL DEFAULT TRUE,
    owner text,
    incarnation integer NOT NULL DEFAULT 0,
    -- Whether readers are started, where its definition says what they do.
    activated boolean NOT NULL DEFAULT TRUE
);

-- Who wants which messages.
CREATE TABLE {schema}.known_subscriptions (
    subscription_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subscription text COLLATE "C" NOT NULL UNIQUE CHECK (length(subscription) BETWEEN 1 AND 128),
    queue_id integer NOT NULL REFERENCES {schema}.queues,
    definition jsonb NOT NULL,
    state text NOT NULL DEFAULT 'started' CHECK (state IN ('started', 'stopped', 'enlisted', 'unenlisted'))
);
CREATE INDEX subscriptions_not_started ON {schema}.known_subscriptions (queue_id) WHERE state <> 'started';

-- A row for each change to the above. Whoever routes knows by the newest whether what it knows is still so. They are
-- numbered from the moment on when the box was made, microseconds: one that is made anew has none that the old one had.
CREATE TABLE {schema}.changes (
    version bigint PRIMARY KEY,
    changed_at timestamptz NOT NULL DEFAULT now(),
    changed_by text NOT NULL DEFAULT session_user,
    what text NOT NULL
);
INSERT INTO {schema}.changes (version, what)
VALUES (1000000 * extract(epoch FROM clock_timestamp()), 'the box was made');

-- What is defined now, and what the caller routes by, stays in use until its transaction ends: who takes it away waits
-- for that. A transaction that keeps its snapshot fails where something was taken away, or stopped, that it still sees.
-- Answers with the version.
CREATE FUNCTION {schema}.hold_definitions() RETURNS bigint
LANGUAGE plpgsql
AS $function$
DECLARE
    -- Not by PERFORM, which runs a query.
    held boolean := pg_advisory_xact_lock_shared(
        hashtextextended('seriatim publishers', '{schema}'::regnamespace::oid::bigint)
    ) IS NOT NULL;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM FROM {schema}.queues FOR SHARE;
        PERFORM FROM {schema}.known_subscriptions FOR SHARE;
    END IF;
    RETURN (SELECT version FROM {schema}.changes ORDER BY version DESC LIMIT 1);
END
$function$;

-- See that nobody has published, and not committed yet, by what is about to go; and that nobody begins to until this
-- transaction ends. FALSE where that took too long: then publishers go on.
CREATE FUNCTION {schema}.hold_publishers(patience_ms integer) RETURNS boolean
LANGUAGE plpgsql
AS $function$
DECLARE
    before text := current_setting('lock_timeout');
BEGIN
    PERFORM set_config('lock_timeout', patience_ms::text, TRUE);
    PERFORM pg_advisory_xact_lock(hashtextextended('seriatim publishers', '{schema}'::regnamespace::oid::bigint));
    PERFORM set_config('lock_timeout', before, TRUE);
    RETURN TRUE;
EXCEPTION WHEN lock_not_available THEN
    RETURN FALSE;
END
$function$;

-- Who wants which messages, by name.
CREATE VIEW {schema}.subscriptions AS
SELECT
    one.subscription,
    place.queue,
    one.state,
    one.definition ->> 'state' AS declared_state,
    one.definition ->> 'where' AS filter
FROM {schema}.known_subscriptions AS one JOIN {schema}.queues AS place USING (queue_id);

-- What a role may: publish to a queue, receive from it, subscribe for it; `route`, which is about no one queue: read and
-- route whatever was published through SQL.
CREATE TABLE {schema}.grants (
    role regrole NOT NULL,
    may text NOT NULL CHECK (may IN ('publish', 'receive', 'subscribe', 'route')),
    queue_id integer REFERENCES {schema}.queues ON DELETE CASCADE,
    granted_at timestamptz NOT NULL DEFAULT now(),
    granted_by text NOT NULL DEFAULT session_user,
    UNIQUE NULLS NOT DISTINCT (role, may, queue_id),
    CHECK ((queue_id IS NULL) = (may = 'route'))
);
CREATE INDEX grants_of_queue ON {schema}.grants (queue_id);

-- Who calls: the role of the session. Within a function that runs as somebody else there is no other way to know.
CREATE FUNCTION {schema}.caller() RETURNS name
LANGUAGE sql STABLE
RETURN CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role')::name END;

-- Is the caller the owner of the box, or a member of it? For functions that run as the owner.
CREATE FUNCTION {schema}.is_owner() RETURNS boolean
LANGUAGE sql STABLE
RETURN pg_has_role({schema}.caller(), current_user, 'USAGE');

-- The queues for which the caller has a right, where it isn't the owner.
CREATE FUNCTION {schema}.permitted(what text) RETURNS integer[]
LANGUAGE sql STABLE
RETURN ARRAY(
    SELECT queue_id FROM {schema}.grants
    WHERE may = what AND pg_has_role({schema}.caller(), role::oid, 'USAGE') ORDER BY queue_id
);

-- Refuse a caller that hasn't a right for all of these queues, or has it for none at all.
CREATE FUNCTION {schema}.permit(what text, queue_ids integer[]) RETURNS void
LANGUAGE plpgsql STABLE
AS $function$
DECLARE
    granted integer[];
    verb text := CASE what
        WHEN 'publish' THEN 'publish to' WHEN 'receive' THEN 'receive from' WHEN 'subscribe' THEN 'subscribe for'
        ELSE what END;
    place text;
BEGIN
    IF {schema}.is_owner() THEN
        RETURN;
    END IF;
    granted := {schema}.permitted(what);
    IF cardinality(granted) > 0 AND queue_ids <@ granted THEN
        RETURN;
    END IF;
    SELECT format('the queue "%s"', coalesce(
        (SELECT known.queue FROM {schema}.queues AS known WHERE known.queue_id = one), one::text
    )) INTO place
    FROM unnest(queue_ids) AS one WHERE NOT ARRAY[one] <@ granted LIMIT 1;
    RAISE EXCEPTION 'the role "%" may not % %', {schema}.caller(), verb, coalesce(place, 'any queue') USING
        ERRCODE = 'insufficient_privilege',
        HINT = 'seriatim box grant';
END
$function$;

-- Refuse a caller that may not receive from a queue, or names entries that are in another one.
CREATE FUNCTION {schema}.permit_entries(of_queue integer, entry_ids bigint[]) RETURNS void
LANGUAGE plpgsql STABLE
AS $function$
BEGIN
    IF {schema}.is_owner() THEN
        RETURN;
    END IF;
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    IF EXISTS (
        SELECT FROM {schema}.entries AS entry WHERE entry.entry_id = ANY (entry_ids) AND entry.queue_id <> of_queue
    ) THEN
        RAISE EXCEPTION 'these entries are in another queue' USING ERRCODE = 'insufficient_privilege';
    END IF;
END
$function$;

-- Refuse a caller that has no right at all.
CREATE FUNCTION {schema}.permit_anything() RETURNS void
LANGUAGE plpgsql STABLE
AS $function$
BEGIN
    IF NOT {schema}.is_owner() AND NOT EXISTS (
        SELECT FROM {schema}.grants WHERE pg_has_role({schema}.caller(), role::oid, 'USAGE')
    ) THEN
        RAISE EXCEPTION 'the role "%" may do nothing in this message box', {schema}.caller() USING
            ERRCODE = 'insufficient_privilege',
            HINT = 'seriatim box grant';
    END IF;
END
$function$;

-- Let a role call what looks by itself whether it may. Called again after a migration, for what that has made.
CREATE FUNCTION {schema}.let_in(who regrole) RETURNS void
LANGUAGE plpgsql
AS $function$
DECLARE
    door regprocedure;
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA %s TO %s', '{schema}'::regnamespace, who);
    FOR door IN
        SELECT oid FROM pg_proc
        WHERE pronamespace = '{schema}'::regnamespace AND prosecdef AND prorettype <> 'trigger'::regtype
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', door, who);
    END LOOP;
END
$function$;

-- Take that back.
CREATE FUNCTION {schema}.shut_out(who regrole) RETURNS void
LANGUAGE plpgsql
AS $function$
BEGIN
    EXECUTE format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA %s FROM %s', '{schema}'::regnamespace, who);
    EXECUTE format('REVOKE ALL ON SCHEMA %s FROM %s', '{schema}'::regnamespace, who);
END
$function$;

-- The version of what is defined.
CREATE FUNCTION {schema}.version() RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN (SELECT max(change.version) FROM {schema}.changes AS change);
END
$function$;

-- Everything that is defined, with its version, as of one moment. Whoever routes has to know all of it.
CREATE FUNCTION {schema}.definitions()
RETURNS TABLE (kind text, id bigint, name text, definition jsonb, state text, owner text, incarnation integer)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN QUERY
        SELECT 'version', max(version), NULL, NULL::jsonb, NULL, NULL, NULL::integer FROM {schema}.changes
        UNION ALL
        SELECT 'type', NULL, type, definition, NULL, NULL, NULL FROM {schema}.types
        UNION ALL
        SELECT 'queue', queue_id, queue, definition, CASE WHEN enabled THEN 'on' ELSE 'off' END, owner, incarnation
        FROM {schema}.queues
        UNION ALL
        SELECT 'subscription', subscription_id, subscription, definition, state, NULL, NULL
        FROM {schema}.known_subscriptions
        UNION ALL
        SELECT 'contract', NULL, contract, definition, NULL, NULL, NULL FROM {schema}.contracts
        UNION ALL
        SELECT 'service', queue_id, service, definition, NULL, NULL, NULL FROM {schema}.services;
END
$function$;

-- Make a subscription, or change one.
CREATE FUNCTION {schema}.subscribe(
    named text, to_queue text, declared jsonb, its_state text
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    place integer := (SELECT queue_id FROM {schema}.queues WHERE queue = to_queue);
BEGIN
    -- Where it leads, and where it led.
    PERFORM {schema}.permit('subscribe', ARRAY(
        SELECT place
        UNION ALL
        SELECT queue_id FROM {schema}.known_subscriptions WHERE subscription = named
    ));
    INSERT INTO {schema}.known_subscriptions AS known (subscription, queue_id, definition, state)
    VALUES (named, place, declared, its_state)
    ON CONFLICT (subscription) DO UPDATE
    SET definition = excluded.definition, queue_id = excluded.queue_id, state = excluded.state;
END
$function$;

-- The next version of what is defined; whoever routes reads it anew.
CREATE FUNCTION {schema}.record_change(changed text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('subscribe', ARRAY[]::integer[]);
    INSERT INTO {schema}.changes (version, what) SELECT max(version) + 1, changed FROM {schema}.changes;
END
$function$;
