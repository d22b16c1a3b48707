-- Two histories under one id: a box that has gone on elsewhere, and the one that it was copied from. The newest incarnation that was heard of is
-- believed; an older one is refused, and the operators of both boxes are told.

-- `peer_incarnation`: the highest that was heard of. `older_at`, `older_incarnation`: when the other box spoke as an older one.
ALTER TABLE {schema}.links ADD COLUMN peer_incarnation bigint NOT NULL DEFAULT 0;
ALTER TABLE {schema}.links ADD COLUMN older_at timestamptz;
ALTER TABLE {schema}.links ADD COLUMN older_incarnation bigint;

-- Note in which incarnation the other box speaks; why it isn't believed, NULL: it is.
CREATE FUNCTION {schema}.link_heard(of_link integer, incarnation bigint) RETURNS text
LANGUAGE plpgsql
AS $function$
DECLARE
    known bigint := (SELECT one.peer_incarnation FROM {schema}.links AS one WHERE one.link_id = of_link);
BEGIN
    IF known < incarnation THEN
        UPDATE {schema}.links AS one SET peer_incarnation = greatest(one.peer_incarnation, incarnation) WHERE one.link_id = of_link;
    ELSIF known > incarnation THEN
        UPDATE {schema}.links AS one SET older_at = clock_timestamp(), older_incarnation = incarnation WHERE one.link_id = of_link;
        RETURN format(
            'a box with this id was here as incarnation %s, and this is %s: two live under one id, or the newer one is gone and an older state of it is back. '
            || 'If this is the right one: seriatim link accept (or link add) once more, at the box that refuses', known, incarnation
        );
    END IF;
    RETURN NULL;
END
$function$;

-- Whoever pairs a link again, believes what is at its other end.
CREATE FUNCTION {schema}.link_believe(of_name text) RETURNS void
LANGUAGE sql
BEGIN ATOMIC
    UPDATE {schema}.links AS one SET peer_incarnation = 0, older_at = NULL, older_incarnation = NULL WHERE one.link = of_name;
END;

-- Both doors as in 0072, with that. SQL's `publish` as in 0020 is refused where too much waits for a link, as `MessageBox.publish` is.
DO $all$
DECLARE
    one record;
    before text;
    after text;
BEGIN
    FOR one IN
        SELECT * FROM (VALUES
            ('link_push_as', $q$    head record;
$q$, $q$    head record;
    refused text;
$q$),
            ('link_push_as', $q$    IF head.kind = 1 THEN
        RETURN (SELECT done.answers$q$, $q$    refused := !.link_heard(of_link, head.incarnation);
    IF refused IS NOT NULL THEN
        RETURN !.link_refusal(sender, refused);
    ELSIF head.kind = 1 THEN
        RETURN (SELECT done.answers$q$),
            ('link_fetch_as', $q$    head record;
$q$, $q$    head record;
    refused text;
$q$),
            ('link_fetch_as', $q$    IF !.disabled_because() IS NOT NULL THEN
$q$, $q$    refused := !.link_heard(of_link, head.incarnation);
    IF refused IS NOT NULL THEN
        batch := !.link_refusal(sender, refused);
        RETURN;
    END IF;
    IF !.disabled_because() IS NOT NULL THEN
$q$),
            ('full_for', $q$    SELECT queue_id, queue, !.whole_number(definition -> 'max_messages') AS most,$q$, $q$    SELECT queue_id, queue, coalesce(!.whole_number(definition -> 'max_messages'), (
            SELECT !.whole_number(one.definition -> 'max_waiting') FROM !.links AS one WHERE one.link = queues.definition ->> 'at'
        )) AS most,$q$),
            ('full_for', $q$    WHERE queue = context ->> 'to' AND !.whole_number(definition -> 'max_messages') IS NOT NULL
        AND definition ->> 'when_full' = 'refuse';
    IF NOT FOUND OR$q$, $q$    WHERE queue = context ->> 'to'
        AND (definition ->> 'at' IS NOT NULL OR definition ->> 'when_full' = 'refuse');
    IF place.most IS NULL OR$q$)
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
