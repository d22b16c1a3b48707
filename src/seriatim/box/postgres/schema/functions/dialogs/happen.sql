-- Apply an action of the other side, or of the clock, to a side: its state, and the resulting message. The caller has
-- locked its row.
-- is: generic plan
CREATE OR REPLACE FUNCTION {schema}.happen(
    to_handle uuid, what_verb text, sequence bigint DEFAULT NULL, code integer DEFAULT NULL, why text DEFAULT NULL
) RETURNS void
AS $function$
DECLARE
    rule record;
BEGIN
    SELECT one.* INTO rule FROM {schema}.endpoints AS known
    JOIN {schema}.dialog_rules AS one ON one.verb = what_verb AND one.state = known.state
    WHERE known.handle = to_handle;
    IF rule.becomes <> rule.state THEN
        PERFORM {schema}.become(to_handle, rule.becomes, code, why);
    END IF;
    IF rule.tells IS NOT NULL THEN
        PERFORM {schema}.post(
            ARRAY[to_handle], ARRAY[rule.tells], ARRAY[CASE WHEN rule.tells = 'Error' THEN 'application/json' END],
            ARRAY[CASE WHEN rule.tells = 'Error' THEN {schema}.error_body(code, why) ELSE '' END],
            ARRAY[CASE WHEN rule.tells = 'EndDialog' THEN sequence END], rule.tells <> 'EndDialog'
        );
    END IF;
END
$function$;
