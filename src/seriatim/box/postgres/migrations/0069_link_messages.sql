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
