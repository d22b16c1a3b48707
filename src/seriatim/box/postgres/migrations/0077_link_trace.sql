-- A third door of links: a peer may be told what became of its messages here, where that is granted. And a role speaks as one box only, as a key does.

-- `traces`: the peer may ask what became of its messages.
ALTER TABLE {schema}.links ADD COLUMN traces boolean NOT NULL DEFAULT FALSE;

-- Where a role speaks as several boxes, it goes on as the first; for the others another one has to be accepted, and until then what they have waits there.
WITH parted AS (
    UPDATE {schema}.links AS one SET role = NULL
    WHERE one.role IS NOT NULL AND EXISTS (
        SELECT FROM {schema}.links AS first WHERE first.role = one.role AND first.link_id < one.link_id
    )
    RETURNING one.link, one.peer, (
        SELECT pg_get_userbyid(former.role::oid) FROM {schema}.links AS former WHERE former.link_id = one.link_id
    ) AS role
)
INSERT INTO {schema}.operator_log (actor, action, reason, details)
SELECT 'seriatim', 'part link', 'its role speaks as another box: seriatim link accept, with a role of its own',
    jsonb_build_object('link', parted.link, 'box', parted.peer, 'role', parted.role)
FROM parted ORDER BY parted.link;
ALTER TABLE {schema}.links ADD CONSTRAINT links_role_key UNIQUE (role);

-- A frame may also ask for a trace (5), with one record, or be one (6). A copy grants nothing.
DO $all$
DECLARE
    one record;
    before text;
    after text;
BEGIN
    FOR one IN
        SELECT * FROM (VALUES
            ('link_head', 'kind BETWEEN 1 AND 4', 'kind BETWEEN 1 AND 6'),
            ('link_head', $q$kind < 3 OR ranges + rows + messages = 0$q$, $q$kind < 3 OR ranges + messages = 0 AND rows = (kind = 5)::integer$q$),
            ('link_head', 'ELSE 72 * rows', 'WHEN 5 THEN 24 * rows ELSE 72 * rows'),
            ('drop_link_pairs', 'public_key = NULL,', 'public_key = NULL, traces = FALSE,')
        ) AS told (name, was, becomes)
    LOOP
        SELECT pg_get_functiondef(fn.oid) INTO STRICT before FROM pg_proc AS fn
        WHERE fn.pronamespace = '{schema}'::regnamespace AND fn.proname = one.name;
        after := replace(before, one.was, one.becomes);
        IF after = before THEN
            RAISE EXCEPTION '% isn''t as it was', one.name;
        END IF;
        EXECUTE after;
    END LOOP;
END
$all$;

-- What became of a message of the box `home` that came over a link: when it came, its places, and what handlers failed at; an empty object where nothing is known
-- of it, or it came another way. A message of the peer itself that nothing is kept of has the time only. Nothing is searched for without an index.
CREATE FUNCTION {schema}.link_message_told(of_link integer, its_id text, home uuid, its_space text) RETURNS jsonb
LANGUAGE plpgsql STABLE
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    most_places CONSTANT integer := 20;
    most_faults CONSTANT integer := 50;
    its_link {schema}.links;
    of_space text := 'link:' || home || ':' || its_space;
    came_at timestamptz := (
        SELECT known.published_at FROM {schema}.message_ids AS known WHERE known.message_id = its_id AND known.id_space = of_space
    );
    stored record;
BEGIN
    IF came_at IS NULL THEN
        RETURN '{{}}';
    END IF;
    SELECT * INTO its_link FROM {schema}.links WHERE link_id = of_link;
    SELECT one.arrival_id, one.position, one.type, one.location, one.epoch, one.number INTO stored FROM {schema}.stored_messages AS one
    WHERE one.message_id = its_id AND one.id_space = of_space AND one.received_at = came_at LIMIT 1;
    IF NOT FOUND THEN
        RETURN CASE WHEN home = its_link.peer THEN jsonb_build_object('received_at', came_at) ELSE '{{}}' END;
    ELSIF stored.location <> 'link:' || its_link.link THEN
        RETURN '{{}}';
    END IF;
    RETURN jsonb_build_object(
        'received_at', came_at, 'type', stored.type,
        'ticket', jsonb_build_object('location', stored.location, 'epoch', stored.epoch, 'number', stored.number),
        'places', coalesce((
            SELECT jsonb_agg(jsonb_build_object(
                'queue', place.queue, 'group', one.group_key, 'status', one.status, 'reason', left(one.reason, 1000), 'sequence', one.sequence,
                'ordinal', one.ordinal, 'late', one.late, 'attempt', one.attempt, 'visible_at', nullif(one.visible_at, 'infinity'), 'since', one.since,
                'done_by', one.done_by
            ) ORDER BY one.entry_id)
            FROM (
                SELECT each.queue_id, each.group_key, each.entry_id, CASE each.status WHEN 'placed' THEN 'held' ELSE each.status::text END AS status,
                    CASE each.status WHEN 'placed' THEN 'place_open' END AS reason, each.sequence, each.ordinal, each.late, each.attempt,
                    each.visible_at, NULL::timestamptz AS since, NULL AS done_by
                FROM {schema}.entries AS each WHERE each.arrival_id = stored.arrival_id AND each.position = stored.position
                UNION ALL
                SELECT each.queue_id, each.group_key, each.entry_id, each.disposition, each.reason, each.sequence, each.ordinal, FALSE, each.attempt,
                    NULL, each.aside_at, NULL
                FROM {schema}.aside AS each WHERE each.arrival_id = stored.arrival_id AND each.position = stored.position
                UNION ALL
                SELECT each.queue_id, each.group_key, each.entry_id, 'done', NULL, each.sequence, each.ordinal, each.late, each.attempt,
                    NULL, each.done_at, each.done_by
                FROM {schema}.history AS each WHERE each.arrival_id = stored.arrival_id AND each.position = stored.position
                UNION ALL
                SELECT NULL, NULL, NULL, 'unrouted', each.problem, NULL, NULL, FALSE, 0, NULL, each.unrouted_at, NULL
                FROM {schema}.unrouted AS each WHERE each.arrival_id = stored.arrival_id AND each.position = stored.position
                UNION ALL
                SELECT NULL, NULL, NULL, 'to_route', NULL, NULL, NULL, FALSE, 0, NULL, NULL, NULL
                FROM {schema}.to_route AS each WHERE each.arrival_id = stored.arrival_id AND each.position = stored.position
                LIMIT most_places
            ) AS one
            LEFT JOIN {schema}.queues AS place USING (queue_id)
        ), '[]'),
        'faults', coalesce((
            SELECT jsonb_agg(jsonb_build_object(
                'queue', place.queue, 'group', one.group_key, 'attempt', one.attempt, 'kind', one.kind, 'error_class', left(one.error_class, 200),
                'error', left(one.error, 1000), 'at', one.at, 'worker', one.worker, 'retry_at', one.retry_at
            ) ORDER BY one.fault_id)
            FROM (
                SELECT * FROM {schema}.faults AS each
                WHERE each.message_id = its_id AND each.arrival_id = stored.arrival_id AND each.position = stored.position
                ORDER BY each.fault_id DESC LIMIT most_faults
            ) AS one
            LEFT JOIN {schema}.queues AS place USING (queue_id)
        ), '[]')
    );
END
$function$;

-- The door, for whoever knows who calls. A peer that isn't granted it gets the same answer whatever it asks. NULL: the key isn't that of a peer.
CREATE FUNCTION {schema}.link_trace_as(of_public_key bytea, frame bytea) RETURNS bytea
LANGUAGE plpgsql
SET lock_timeout = '2s'
SET standard_conforming_strings = on
SET jit = off
AS $function$
DECLARE
    head record;
    own uuid := (SELECT known.box_id FROM {schema}.box_identity AS known);
    of_link integer;
    sender uuid := '00000000-0000-0000-0000-000000000000';
    id_length integer;
    space_length integer;
BEGIN
    IF NOT {schema}.link_knows(of_public_key) THEN
        RETURN NULL;
    END IF;
    SELECT * INTO head FROM {schema}.link_head(frame);
    sender := head.sender;
    PERFORM {schema}.link_check(head.kind = 5, 'a frame that should ask for a trace is something else');
    of_link := (
        SELECT one.link_id FROM {schema}.links AS one
        WHERE one.link_id = {schema}.link_of(head.sender, of_public_key) AND one.traces AND head.receiver = own
    );
    IF of_link IS NULL THEN
        RETURN {schema}.link_refusal(sender, 'nothing is known of this');
    END IF;
    id_length := least({schema}.link_u4(frame, 80), 1025);
    space_length := least({schema}.link_u4(frame, 84), 513);
    PERFORM {schema}.link_check(
        id_length BETWEEN 1 AND 1024 AND space_length <= 512 AND octet_length(frame) = 120 + id_length + space_length,
        'a frame that asks for a trace has lengths that none can have'
    );
    RETURN {schema}.link_frame(6, sender, 0, 0, 0, 0, convert_to({schema}.link_message_told(
        of_link, convert_from(substring(frame, 89, id_length), 'UTF8'), encode(substring(frame, 65, 16), 'hex')::uuid,
        convert_from(substring(frame, 89 + id_length, space_length), 'UTF8')
    )::text, 'UTF8'));
EXCEPTION
    WHEN SQLSTATE 'SQ004' OR data_exception THEN
        RETURN {schema}.link_refusal(sender, SQLERRM);
    WHEN OTHERS THEN
        -- A peer is told nothing of what is in this box; its log has it.
        RAISE WARNING 'a trace over a link failed: % (%)', SQLERRM, SQLSTATE;
        RETURN {schema}.link_refusal(sender, 'the box can''t tell it: its log says why');
END
$function$;

-- The door of another box that has a role.
CREATE FUNCTION {schema}.link_trace(frame bytea) RETURNS bytea
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
RETURN {schema}.link_trace_as(NULL, frame);

-- What to ask which box of a message that may have left: each link by which it may, with the frame.
CREATE FUNCTION {schema}.link_trace_requests(its_id text, of_space text)
RETURNS TABLE (link text, definition text, peer uuid, frame bytea)
LANGUAGE plpgsql STABLE
AS $function$
DECLARE
    most_links CONSTANT integer := 10;
    own uuid := (SELECT known.box_id FROM {schema}.box_identity AS known);
BEGIN
    RETURN QUERY SELECT one.link, one.definition::text, one.peer, {schema}.link_frame(
        5, one.peer, 0, 1, 0, 0, uuid_send(asked.home) || int4send(octet_length(convert_to(its_id, 'UTF8')))
            || int4send(octet_length(convert_to(asked.space, 'UTF8'))) || convert_to(its_id, 'UTF8') || convert_to(asked.space, 'UTF8')
    )
    FROM {schema}.message_ids AS known
    CROSS JOIN LATERAL (
        SELECT CASE WHEN known.id_space ^@ 'link:' THEN substr(known.id_space, 6, 36)::uuid ELSE own END AS home,
            CASE WHEN known.id_space ^@ 'link:' THEN substr(known.id_space, 43) ELSE known.id_space END AS space
    ) AS asked
    CROSS JOIN {schema}.links AS one
    WHERE known.message_id = its_id AND (of_space IS NULL OR known.id_space = of_space)
        AND one.definition IS NOT NULL AND one.peer IS NOT NULL
        AND EXISTS (SELECT FROM {schema}.queues AS place WHERE place.definition ->> 'at' = one.link)
    ORDER BY known.id_space, one.link LIMIT most_links;
END
$function$;

-- Let a role speak as another box: it may call two doors, and the third one where that is granted, and nothing else.
CREATE OR REPLACE FUNCTION {schema}.link_let_in(who regrole) RETURNS void
LANGUAGE plpgsql
AS $function$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA %s TO %s', '{schema}'::regnamespace, who);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s, %s TO %s', '{schema}.link_push(bytea)'::regprocedure, '{schema}.link_fetch(bytea)'::regprocedure, who);
    IF EXISTS (SELECT FROM {schema}.links WHERE role = who AND traces) THEN
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', '{schema}.link_trace(bytea)'::regprocedure, who);
    ELSIF NOT EXISTS (SELECT FROM {schema}.grants WHERE role = who) THEN
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM %s', '{schema}.link_trace(bytea)'::regprocedure, who);
    END IF;
END
$function$;

-- Take that back, unless it speaks as another one; its other rights in the box stay.
CREATE OR REPLACE FUNCTION {schema}.link_shut_out(who regrole) RETURNS void
LANGUAGE plpgsql
AS $function$
BEGIN
    IF EXISTS (SELECT FROM {schema}.links WHERE role = who) OR NOT EXISTS (SELECT FROM pg_roles WHERE oid = who) THEN
        RETURN;
    END IF;
    IF NOT EXISTS (SELECT FROM {schema}.grants WHERE role = who) THEN
        EXECUTE format(
            'REVOKE EXECUTE ON FUNCTION %s, %s, %s FROM %s', '{schema}.link_push(bytea)'::regprocedure, '{schema}.link_fetch(bytea)'::regprocedure,
            '{schema}.link_trace(bytea)'::regprocedure, who
        );
        EXECUTE format('REVOKE USAGE ON SCHEMA %s FROM %s', '{schema}'::regnamespace, who);
    END IF;
END
$function$;
