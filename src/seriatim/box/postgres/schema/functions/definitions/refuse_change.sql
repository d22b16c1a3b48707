-- Refuse changes: records of actions stay.
CREATE OR REPLACE FUNCTION {schema}.refuse_change() RETURNS trigger
AS $function$
BEGIN
    RAISE EXCEPTION 'rows of the operator log are only added' USING ERRCODE = 'insufficient_privilege';
END
$function$;
