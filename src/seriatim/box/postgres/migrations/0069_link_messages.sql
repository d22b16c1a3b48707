-- What came over a link keeps the types of its properties: `pending` as in 0045, with these.
DO $all$
DECLARE
    before text;
    after text;
    signature text;
BEGIN
    SELECT pg_get_functiondef(fn.oid), fn.oid::regprocedure::text INTO STRICT before, signature FROM pg_proc AS fn
    WHERE fn.pronamespace = '{schema}'::regnamespace AND fn.proname = 'pending';
    after := replace(before, 'context text, body bytea', 'context text, property_types jsonb, body bytea');
    after := replace(after, E'stored.context::text,\n        stored.body', E'stored.context::text,\n        stored.property_types, stored.body');
    IF length(after) <> length(before) + length(' property_types jsonb,') + length(' stored.property_types,') THEN
        RAISE EXCEPTION 'pending isn''t as it was';
    END IF;
    EXECUTE 'DROP FUNCTION ' || signature;
    EXECUTE after;
END
$all$;

-- Nobody but a link says of a message that it came over one.
DO $all$
DECLARE
    one record;
    after text;
BEGIN
    FOR one IN
        SELECT fn.proname, pg_get_functiondef(fn.oid) AS before FROM pg_proc AS fn
        WHERE fn.pronamespace = '{schema}'::regnamespace AND fn.proname IN ('publish', 'wrong_message')
    LOOP
        after := replace(one.before, 'origin_ordinal}}', 'origin_ordinal,link_sent_by,link_through,link_replayed}}');
        IF after = one.before THEN
            RAISE EXCEPTION '% isn''t as it was', one.proname;
        END IF;
        EXECUTE after;
    END LOOP;
END
$all$;

-- How many messages may wait for a queue of another box is said by its link: publishers have to know it. `definitions` as in 0035, with that.
DO $all$
DECLARE
    before text;
    after text;
BEGIN
    SELECT pg_get_functiondef(fn.oid) INTO STRICT before FROM pg_proc AS fn
    WHERE fn.pronamespace = '{schema}'::regnamespace AND fn.proname = 'definitions';
    after := replace(before, $q$        UNION ALL
        SELECT 'settings'$q$, replace($q$        UNION ALL
        SELECT 'link', link_id, link, definition ->> 'max_waiting', NULL, NULL, NULL, NULL, NULL, NULL FROM !.links
        WHERE definition ->> 'max_waiting' IS NOT NULL
        UNION ALL
        SELECT 'settings'$q$, '!', '{schema}'));
    IF after = before THEN
        RAISE EXCEPTION 'definitions isn''t as it was';
    END IF;
    EXECUTE after;
END
$all$;

-- How many more messages go into queues, of which each may have so many: as in 0019, and of a queue of another box what is on its way counts.
CREATE OR REPLACE FUNCTION {schema}.room_in(of_queues integer[], mosts bigint[]) RETURNS bigint[]
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    IF NOT {schema}.is_owner() THEN
        PERFORM {schema}.permit('publish', ARRAY(
            SELECT one.queue_id FROM unnest(of_queues) AS one (queue_id) WHERE NOT {schema}.is_subscribed(one.queue_id)
        ));
    END IF;
    RETURN ARRAY(
        SELECT most - (
            SELECT count(*) FROM (SELECT FROM {schema}.entries WHERE queue_id = queue LIMIT most) AS counted
        ) - coalesce((
            SELECT sum(stream.sent - stream.acked) FROM {schema}.links AS one
            JOIN {schema}.link_streams_out AS stream ON stream.link_id = one.link_id AND stream.queue_id = queue AND stream.acked < stream.sent
        ), 0)::bigint
        FROM unnest(of_queues, mosts) WITH ORDINALITY AS asked (queue, most, place)
        ORDER BY place
    );
END
$function$;
