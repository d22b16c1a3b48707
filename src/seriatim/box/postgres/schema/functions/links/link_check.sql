-- Refuse a frame that breaks a condition.
CREATE OR REPLACE FUNCTION {schema}.link_check(holds boolean, otherwise text) RETURNS void
AS $function$
BEGIN
    IF holds IS NOT TRUE THEN
        RAISE EXCEPTION '%', otherwise USING ERRCODE = 'SQ004';
    END IF;
END
$function$;
