-- Note that the first message of these dialogs has been received.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.converse(handles uuid[]) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY(
        SELECT known.queue_id FROM {schema}.endpoints AS known WHERE known.handle = ANY (handles)
    ));
    UPDATE {schema}.endpoints AS known SET state = rule.becomes FROM {schema}.dialog_rules AS rule
    WHERE known.handle = ANY (handles) AND rule.verb = 'receive' AND rule.state = known.state
        AND rule.becomes <> known.state;
END
$function$;
