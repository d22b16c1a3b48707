-- Links over HTTPS: a peer may be known by the public key of its certificate, in place of a role.

-- `public_key`: the SHA-256 of the key as a certificate has it (SubjectPublicKeyInfo). It speaks as one box only.
ALTER TABLE {schema}.links ADD COLUMN public_key bytea UNIQUE CHECK (octet_length(public_key) = 32);
ALTER TABLE {schema}.links ADD CONSTRAINT links_principal_check CHECK (role IS NULL OR public_key IS NULL);

-- Who calls: the peer with this key, or with NULL the role of the session. This is the only place that says which box somebody speaks as.
DROP FUNCTION {schema}.link_of(uuid);
CREATE FUNCTION {schema}.link_of(sender uuid, of_public_key bytea) RETURNS integer
LANGUAGE sql STABLE
RETURN (
    SELECT one.link_id FROM {schema}.links AS one
    WHERE one.peer = sender AND CASE
        WHEN of_public_key IS NULL THEN one.role = to_regrole(quote_ident({schema}.caller()))
        ELSE one.public_key = of_public_key
    END
);

-- Whether a key is that of a peer at all; a role without a right can't even call.
CREATE FUNCTION {schema}.link_knows(of_public_key bytea) RETURNS boolean
LANGUAGE sql STABLE
RETURN of_public_key IS NULL OR EXISTS (SELECT FROM {schema}.links AS one WHERE one.public_key = of_public_key);

-- The two doors, for whoever knows who calls. They take a frame and give one; nothing that a peer says makes them fail. What a peer isn't
-- granted is answered `gone`, whatever exists. NULL: the key isn't that of a peer. `of_token`: of the question that is answered.
CREATE FUNCTION {schema}.link_push_as(of_public_key bytea, frame bytea, of_token uuid) RETURNS bytea
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
BEGIN
    IF NOT {schema}.link_knows(of_public_key) THEN
        RETURN NULL;
    END IF;
    SELECT * INTO head FROM {schema}.link_head(frame);
    sender := head.sender;
    of_link := {schema}.link_of(head.sender, of_public_key);
    IF of_link IS NULL THEN
        IF head.kind = 1 THEN
            RETURN {schema}.link_gone(frame, head.sender, head.ranges, head.rows);
        END IF;
        RETURN {schema}.link_refusal(sender, 'nothing is known of this');
    END IF;
    IF head.receiver <> own THEN
        RETURN {schema}.link_refusal(sender, format('the frame is for the box %s, and this is %s', head.receiver, own));
    END IF;
    IF head.kind = 1 THEN
        RETURN (SELECT done.answers FROM {schema}.link_take(of_link, frame) AS done);
    ELSIF head.kind = 2 THEN
        PERFORM {schema}.link_answered(of_link, frame, of_token);
        -- Answers to nothing: the word that these were used.
        RETURN {schema}.link_frame(2, sender, 0, 0, 0, 0, '');
    END IF;
    RETURN {schema}.link_refusal(sender, 'batches and answers are pushed');
EXCEPTION
    WHEN SQLSTATE 'SQ004' OR data_exception THEN
        RETURN {schema}.link_refusal(sender, SQLERRM);
    WHEN lock_not_available OR serialization_failure OR deadlock_detected OR unique_violation THEN
        RETURN {schema}.link_refusal(sender, 'the box is busy: ask again');
    WHEN OTHERS THEN
        -- A peer is told nothing of what is in this box; its log has it.
        RAISE WARNING 'a link failed: % (%)', SQLERRM, SQLSTATE;
        RETURN {schema}.link_refusal(sender, 'the box can''t take it: its log says why');
END
$function$;

CREATE FUNCTION {schema}.link_fetch_as(of_public_key bytea, frame bytea, OUT batch bytea, OUT of_token uuid)
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
    next record;
BEGIN
    IF NOT {schema}.link_knows(of_public_key) THEN
        RETURN;
    END IF;
    SELECT * INTO head FROM {schema}.link_head(frame);
    sender := head.sender;
    PERFORM {schema}.link_check(head.kind = 3 AND octet_length(frame) = 96, 'a frame that should be a request is something else');
    of_link := {schema}.link_of(head.sender, of_public_key);
    IF of_link IS NULL OR head.receiver <> own THEN
        batch := {schema}.link_refusal(sender, CASE WHEN of_link IS NULL THEN 'nothing is known of this'
            ELSE format('the frame is for the box %s, and this is %s', head.receiver, own) END);
        RETURN;
    END IF;
    IF {schema}.disabled_because() IS NOT NULL THEN
        batch := {schema}.link_refusal(sender, 'the box is disabled');
        RETURN;
    END IF;
    SELECT * INTO next FROM {schema}.link_next(of_link, head.most_bytes, FALSE);
    IF next.frame IS NULL THEN
        batch := {schema}.link_refusal(sender, 'the box is busy: ask again');
        RETURN;
    END IF;
    batch := next.frame;
    of_token := next.of_token;
EXCEPTION
    WHEN SQLSTATE 'SQ004' OR data_exception THEN
        batch := {schema}.link_refusal(sender, SQLERRM);
    WHEN lock_not_available OR serialization_failure OR deadlock_detected OR unique_violation THEN
        batch := {schema}.link_refusal(sender, 'the box is busy: ask again');
    WHEN OTHERS THEN
        -- A peer is told nothing of what is in this box; its log has it.
        RAISE WARNING 'a link failed: % (%)', SQLERRM, SQLSTATE;
        batch := {schema}.link_refusal(sender, 'the box can''t take it: its log says why');
END
$function$;

-- The two doors of another box that has a role. Its question is remembered in the session: the answers come by the same one.
CREATE OR REPLACE FUNCTION {schema}.link_push(frame bytea) RETURNS bytea
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
RETURN {schema}.link_push_as(NULL, frame, nullif(current_setting('seriatim.link_question', TRUE), '')::uuid);

CREATE OR REPLACE FUNCTION {schema}.link_fetch(frame bytea) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    next record;
BEGIN
    SELECT * INTO next FROM {schema}.link_fetch_as(NULL, frame);
    IF next.of_token IS NOT NULL THEN
        PERFORM set_config('seriatim.link_question', next.of_token::text, FALSE);
    END IF;
    RETURN next.batch;
END
$function$;

-- Of a copy: its pairs are the original's, and so is what waits to be sent. Returns how many messages are deleted.
CREATE OR REPLACE FUNCTION {schema}.drop_link_pairs() RETURNS bigint
LANGUAGE plpgsql
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    gone bigint := (SELECT coalesce(sum(sent - acked), 0) FROM {schema}.link_streams_out WHERE acked < sent);
    place record;
BEGIN
    FOR place IN SELECT queue_id FROM {schema}.queues WHERE definition ->> 'at' IS NOT NULL LOOP
        gone := gone + (SELECT count(*) FROM {schema}.entries WHERE queue_id = place.queue_id);
        PERFORM {schema}.link_leave(ARRAY(SELECT entry_id FROM {schema}.entries WHERE queue_id = place.queue_id));
    END LOOP;
    DELETE FROM {schema}.link_streams_out WHERE TRUE;
    DELETE FROM {schema}.link_streams_in WHERE TRUE;
    DELETE FROM {schema}.link_numbers WHERE TRUE;
    UPDATE {schema}.links SET peer = NULL, role = NULL, public_key = NULL, replayed_through = 0 WHERE TRUE;
    RETURN gone;
END
$function$;

-- By which property a queue of the other box groups, as that one told when a stream to it began: by the number of the queue here.
ALTER TABLE {schema}.links ADD COLUMN far_groups jsonb NOT NULL DEFAULT '{{}}';

-- The queues of a link that group by something else there than here, for people.
CREATE FUNCTION {schema}.link_warnings(of_link integer) RETURNS text[]
LANGUAGE sql STABLE
RETURN ARRAY(
    SELECT format(
        'the queue "%s" groups by "%s" there and by "%s" here: the order of a group there isn''t kept on the way',
        place.queue, told.value, place.definition ->> 'group'
    )
    FROM {schema}.links AS one
    CROSS JOIN LATERAL jsonb_each_text(one.far_groups) AS told
    JOIN {schema}.queues AS place ON place.queue_id = told.key::integer
    WHERE one.link_id = of_link AND place.definition ->> 'at' = one.link AND place.definition #>> '{{policy,name}}' <> 'unordered'
        AND place.definition ->> 'group' <> told.value
    ORDER BY place.queue
);

-- With its first messages a stream is answered by what its queue groups by; `link_take` and `link_answered` as in 0068, with that.
DO $all$
DECLARE
    one record;
    before text;
    after text;
BEGIN
    FOR one IN
        SELECT * FROM (VALUES
            ('link_take', $q$            WHEN one.answer <> 1 THEN ''
$q$, $q$            WHEN one.answer = 0 AND one.after = 0 AND one.count > 0 THEN coalesce(one.groups_by, '')
            WHEN one.answer <> 1 THEN ''
$q$),
            ('link_take', $q$            SELECT each.*, place.queue_id, here.number IS NOT NULL AS is_known,
$q$, $q$            SELECT each.*, place.queue_id, here.number IS NOT NULL AS is_known, place.definition ->> 'group' AS groups_by,
$q$),
            ('link_answered', $q$    UPDATE !.links SET sent = sent + acknowledged WHERE link_id = of_link AND acknowledged > 0;
$q$, $q$    UPDATE !.links SET sent = sent + acknowledged WHERE link_id = of_link AND acknowledged > 0;
    UPDATE !.links AS link SET far_groups = link.far_groups || there.groups
    FROM (
        SELECT jsonb_object_agg(stream.queue_id, one.reason) AS groups
        FROM unnest(fate.ids, fate.decisions, fate.reasons) AS one (stream_id, decision, reason)
        JOIN !.link_streams_out AS stream USING (stream_id) WHERE one.decision = 0 AND one.reason <> ''
    ) AS there
    WHERE link.link_id = of_link AND NOT link.far_groups @> there.groups;
$q$)
        ) AS told (name, was, becomes)
    LOOP
        SELECT pg_get_functiondef(fn.oid) INTO STRICT before FROM pg_proc AS fn
        WHERE fn.pronamespace = '{schema}'::regnamespace AND fn.proname = one.name;
        after := replace(before, replace(one.was, '!', '{schema}'), replace(one.becomes, '!', '{schema}'));
        IF after = before THEN
            RAISE EXCEPTION '% isn''t as it was', one.name;
        END IF;
        EXECUTE after;
    END LOOP;
END
$all$;
