-- Drop the partition of a day, if it is empty. It waits only for a moment (`lock_timeout` of the caller): others
-- would wait behind it.
CREATE OR REPLACE FUNCTION {schema}.drop_history_day(of_day date) RETURNS boolean
AS $function$
DECLARE
    part text := 'history_' || to_char(of_day, 'YYYYMMDD');
    used boolean;
BEGIN
    FOR look IN 1..2 LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM {schema}.%I)', part) INTO used;
        IF used THEN
            RETURN FALSE;
        END IF;
        LOCK TABLE ONLY {schema}.history IN ACCESS EXCLUSIVE MODE;
    END LOOP;
    EXECUTE format('DROP TABLE {schema}.%I', part);
    RETURN TRUE;
END
$function$;
