-- Return the messages that wait here for the asking box, as a batch. Its question is remembered in the session: the
-- answers come through the same one.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.link_fetch(frame bytea) RETURNS bytea
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
