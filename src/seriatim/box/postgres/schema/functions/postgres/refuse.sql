-- Raise the refusal of a verb: for callers from SQL.
CREATE OR REPLACE FUNCTION {schema}.refuse(refused text, what text, remedy text) RETURNS void
AS $function$
BEGIN
    IF refused IS NOT NULL THEN
        RAISE EXCEPTION '%', what USING
            ERRCODE = CASE refused
                WHEN 'usage' THEN 'invalid_parameter_value'
                ELSE 'object_not_in_prerequisite_state'
            END,
            HINT = coalesce(remedy, '');
    END IF;
END
$function$;
