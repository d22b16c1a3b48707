-- End a delivery: what isn't done is handed out again, and no attempt is counted.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.give_back(delivery uuid, holder text DEFAULT '') RETURNS jsonb
AS $function$
DECLARE
    lease record := {schema}.at_lease(delivery, holder, 'give_back', NULL, '');
BEGIN
    IF lease.answer IS NOT NULL THEN
        RETURN lease.answer;
    END IF;
    PERFORM {schema}.drop_lease(lease.queue_id, lease.token, FALSE, 10000);
    RETURN {schema}.note_answer(delivery, holder, 'give_back', NULL, '', '{}', lease.done, TRUE);
END
$function$;
