-- Who a box is: its id, and the server on which it lives. A copy is told from the original, and disabled.

-- The id of the box, and the server that it remembers; one row, none before the first open. NULL: not known. `folder`, `folder_inode`:
-- of the embedded PostgreSQL, the inode with its device. `incarnation`: counts how often the box may have gone back in time.
CREATE TABLE {schema}.box_identity (
    is_only boolean PRIMARY KEY DEFAULT TRUE CHECK (is_only),
    box_id uuid NOT NULL,
    incarnation bigint NOT NULL DEFAULT 1 CHECK (incarnation > 0),
    began_at timestamptz NOT NULL DEFAULT now(),
    system_identifier bigint,
    database_oid bigint NOT NULL,
    timeline bigint,
    folder text,
    folder_inode text
);

-- The server as it is. What the owner of the box may not ask, or the server doesn't tell, is NULL: the timeline of a standby, for
-- one. The timeline is that of the write-ahead log: the control file has the old one until the first checkpoint after a promotion.
CREATE FUNCTION {schema}.server_here(
    OUT system_identifier bigint, OUT database_oid bigint, OUT timeline bigint, OUT is_standby boolean,
    OUT folder text, OUT folder_inode text
)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    BEGIN
        system_identifier := (SELECT control.system_identifier FROM pg_control_system() AS control);
    EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_function THEN
        NULL;
    END;
    database_oid := (SELECT base.oid FROM pg_database AS base WHERE base.datname = current_database());
    is_standby := pg_is_in_recovery();
    IF NOT is_standby THEN
        BEGIN
            timeline := ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint;
        EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_function
            OR object_not_in_prerequisite_state THEN
            NULL;
        END;
    END IF;
    -- The embedded PostgreSQL is started with these.
    folder := nullif(current_setting('seriatim.folder', TRUE), '');
    folder_inode := nullif(current_setting('seriatim.folder_inode', TRUE), '');
END
$function$;

-- Why the box is disabled; NULL: it isn't. What one side doesn't know is no difference. A box without an id is nobody's copy.
CREATE FUNCTION {schema}.disabled_because() RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    known {schema}.box_identity;
    here record;
BEGIN
    SELECT * INTO known FROM {schema}.box_identity;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    SELECT * INTO here FROM {schema}.server_here();
    RETURN CASE
        WHEN known.system_identifier <> here.system_identifier THEN format(
            'it remembers the server with the system identifier %s, and this one has %s',
            known.system_identifier, here.system_identifier
        )
        WHEN known.database_oid <> here.database_oid THEN format(
            'it remembers the database with the oid %s, and "%s" has %s',
            known.database_oid, current_database(), here.database_oid
        )
        WHEN known.folder <> here.folder AND known.folder_inode <> here.folder_inode THEN format(
            'it remembers the folder %s, and this is %s, which is another one', known.folder, here.folder
        )
    END;
END
$function$;

-- Refuse a box that is disabled. What it has found once is noted in the session, for good: no session gets to another server.
CREATE FUNCTION {schema}.check_enabled() RETURNS void
LANGUAGE plpgsql
AS $function$
DECLARE
    why text := {schema}.disabled_because();
BEGIN
    IF why IS NOT NULL THEN
        RAISE EXCEPTION 'the message box is disabled: %', why USING
            ERRCODE = 'SQ003',
            HINT = 'if it was moved here, or the server upgraded: seriatim box enable; if this is a copy: seriatim box new-id';
    END IF;
    PERFORM set_config('seriatim.enabled_' || replace('{schema}', '"', ''), 'yes', FALSE);
END
$function$;

-- `permit` as in 0032, and `take_numbers` as in 0018; in a box that isn't disabled. It is asked here since users' SQL comes by here, the
-- owner's, too. To look and to subscribe needs no such box.
DO $all$
DECLARE
    one record;
    before text;
    asked text := $q$    IF current_setting($q$ || quote_literal('seriatim.enabled_' || replace('{schema}', '"', ''))
        || $q$, TRUE) IS DISTINCT FROM 'yes'$q$;
    told text := $q$ THEN
        PERFORM {schema}.check_enabled();
    END IF;
$q$;
BEGIN
    FOR one IN
        SELECT * FROM (VALUES
            ('permit', $q$    IF {schema}.is_owner() THEN
        RETURN;$q$, $q$ AND what NOT IN ('read', 'see', 'see_bodies', 'subscribe')$q$),
            ('take_numbers', $q$    IF (length(at_location) BETWEEN$q$, '')
        ) AS wanted (name, old, unless)
    LOOP
        SELECT pg_get_functiondef(fn.oid) INTO STRICT before FROM pg_proc AS fn
        WHERE fn.pronamespace = '{schema}'::regnamespace AND fn.proname = one.name;
        IF (length(before) - length(replace(before, one.old, ''))) <> length(one.old) THEN
            RAISE EXCEPTION 'not once in %: %', one.name, one.old;
        END IF;
        EXECUTE replace(before, one.old, asked || one.unless || told || one.old);
    END LOOP;
END
$all$;

-- Why the box is disabled; NULL: it isn't. Whoever has a right in the box may ask.
CREATE FUNCTION {schema}.why_disabled() RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN {schema}.disabled_because();
END
$function$;

-- Called once for each connection that a process makes: gives an id to a box that has none, and notes a new timeline as a new
-- incarnation. Nobody can give it values but the owner, whose session says the folder. `is_final`: whether this holds for as long as
-- the connection does: not where nothing can be written, since a standby can be promoted.
CREATE FUNCTION {schema}.look_at_identity(
    OUT box_id uuid, OUT incarnation bigint, OUT why_disabled text, OUT is_final boolean
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    known {schema}.box_identity;
    here record;
    own boolean := {schema}.is_owner();
BEGIN
    PERFORM {schema}.permit_anything();
    is_final := current_setting('transaction_read_only') = 'off';
    SELECT * INTO known FROM {schema}.box_identity;
    SELECT * INTO here FROM {schema}.server_here();
    IF known.box_id IS NULL AND is_final THEN
        -- Of several at once the others wait for the first one, and then read what it has written.
        INSERT INTO {schema}.box_identity (box_id, system_identifier, database_oid, timeline, folder, folder_inode)
        VALUES (
            gen_random_uuid(), here.system_identifier, here.database_oid, here.timeline,
            CASE WHEN own THEN here.folder END, CASE WHEN own THEN here.folder_inode END
        ) ON CONFLICT DO NOTHING;
        SELECT * INTO known FROM {schema}.box_identity;
    END IF;
    why_disabled := {schema}.disabled_because();
    IF why_disabled IS NULL AND is_final THEN
        IF known.timeline <> here.timeline THEN
            UPDATE {schema}.box_identity AS one
            SET incarnation = one.incarnation + 1, began_at = now(), timeline = here.timeline
            WHERE one.timeline <> here.timeline
            RETURNING one.incarnation INTO known.incarnation;
            IF FOUND THEN
                INSERT INTO {schema}.operator_log (actor, action, reason, details)
                VALUES (
                    'seriatim', 'new incarnation',
                    'the server was promoted, or recovered to a point in time: its timeline is another one',
                    jsonb_build_object(
                        'box', known.box_id, 'incarnation', known.incarnation,
                        'timeline', jsonb_build_array(known.timeline, here.timeline)
                    )
                );
            ELSE
                SELECT one.incarnation INTO known.incarnation FROM {schema}.box_identity AS one;
            END IF;
        END IF;
        -- What wasn't known before; and a folder that was moved, or whose inode is another one, goes on as it is now.
        IF known.system_identifier IS NULL AND here.system_identifier IS NOT NULL
            OR known.timeline IS NULL AND here.timeline IS NOT NULL
            OR own AND (known.folder, known.folder_inode) IS DISTINCT FROM (here.folder, here.folder_inode)
            AND here.folder IS NOT NULL THEN
            UPDATE {schema}.box_identity AS one SET
                system_identifier = coalesce(one.system_identifier, here.system_identifier),
                timeline = coalesce(one.timeline, here.timeline),
                folder = CASE WHEN own THEN coalesce(here.folder, one.folder) ELSE one.folder END,
                folder_inode = CASE WHEN own THEN coalesce(here.folder_inode, one.folder_inode) ELSE one.folder_inode END;
        END IF;
    END IF;
    box_id := known.box_id;
    incarnation := known.incarnation;
END
$function$;

-- The box and its server, for people: what it remembers, and what is here. No row where it has no id yet.
CREATE FUNCTION {schema}.identity_shown() RETURNS TABLE (
    id uuid, incarnation bigint, since timestamptz, why_disabled text, is_standby boolean,
    system_identifier bigint, database_oid bigint, timeline bigint, folder text,
    system_identifier_here bigint, database_oid_here bigint, timeline_here bigint, folder_here text
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN QUERY
    SELECT known.box_id, known.incarnation, known.began_at, {schema}.disabled_because(), here.is_standby,
        known.system_identifier, known.database_oid, known.timeline, known.folder,
        here.system_identifier, here.database_oid, here.timeline, here.folder
    FROM {schema}.box_identity AS known CROSS JOIN {schema}.server_here() AS here;
END
$function$;

-- From now on the box lives here, under a new id or, with NULL, under its own: then in a new incarnation, for it may have been
-- restored from a backup.
CREATE FUNCTION {schema}.live_here(new_id uuid, OUT box_id uuid, OUT incarnation bigint)
LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
BEGIN
    INSERT INTO {schema}.box_identity AS known (
        box_id, system_identifier, database_oid, timeline, folder, folder_inode
    )
    SELECT coalesce(new_id, gen_random_uuid()), here.system_identifier, here.database_oid, here.timeline,
        here.folder, here.folder_inode
    FROM {schema}.server_here() AS here
    ON CONFLICT (is_only) DO UPDATE SET
        box_id = coalesce(new_id, known.box_id),
        incarnation = CASE WHEN new_id IS NULL THEN known.incarnation + 1 ELSE 1 END,
        began_at = now(),
        system_identifier = EXCLUDED.system_identifier,
        database_oid = EXCLUDED.database_oid,
        timeline = EXCLUDED.timeline,
        folder = EXCLUDED.folder,
        folder_inode = EXCLUDED.folder_inode
    RETURNING known.box_id, known.incarnation INTO box_id, incarnation;
END
$function$;

-- Delete what waits to be delivered in dialogs, since the original of this copy delivers it. The sides that have sent it fail, for the
-- rest of it could never be delivered in order.
CREATE FUNCTION {schema}.drop_transmission(why text, OUT messages bigint, OUT dialogs bigint)
LANGUAGE plpgsql
SET enable_seqscan = off
AS $function$
DECLARE
    one record;
BEGIN
    messages := 0;
    dialogs := 0;
    FOR one IN
        SELECT known.handle FROM {schema}.endpoints AS known
        WHERE EXISTS (SELECT FROM {schema}.transmission AS waiting WHERE waiting.handle = known.handle)
        ORDER BY known.handle FOR UPDATE
    LOOP
        WITH gone AS (DELETE FROM {schema}.transmission AS waiting WHERE waiting.handle = one.handle RETURNING 1)
        SELECT messages + count(*) INTO messages FROM gone;
        dialogs := dialogs + 1;
        PERFORM {schema}.happen(one.handle, 'error comes', NULL, -3, why);
    END LOOP;
END
$function$;

-- How much that would delete.
CREATE FUNCTION {schema}.transmission_size(OUT messages bigint, OUT dialogs bigint)
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT count(*), count(DISTINCT handle) FROM {schema}.transmission;
END;

-- Take its id from a box that becomes a template: each copy takes one of its own when it is first opened.
CREATE FUNCTION {schema}.forget_identity() RETURNS void
LANGUAGE sql
BEGIN ATOMIC
    DELETE FROM {schema}.box_identity;
END;
