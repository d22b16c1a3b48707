-- Refuse a time that no lease can have.
CREATE OR REPLACE FUNCTION {schema}.lease_period(period interval) RETURNS interval
AS $function$
BEGIN
    IF period > '0 s' AND period <= '1 day' THEN
        RETURN period;
    END IF;
    RAISE EXCEPTION 'a lease can''t last %', coalesce(period::text, 'NULL') USING
        ERRCODE = 'invalid_parameter_value', HINT = 'more than 0 and at most 1 day';
END
$function$;
