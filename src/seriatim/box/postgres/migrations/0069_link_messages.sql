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
