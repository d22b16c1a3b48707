-- Fail the sides of dialogs that go over a link, and tell the other box nothing.
-- is: no seqscan
CREATE OR REPLACE FUNCTION {schema}.leave_dialogs(over_link integer, code integer, why text) RETURNS void
AS $function$
DECLARE
    side uuid;
BEGIN
    FOR side IN
        SELECT own.handle FROM {schema}.endpoints AS own WHERE own.link_id = over_link ORDER BY own.handle FOR UPDATE
    LOOP
        PERFORM {schema}.drop_said(side);
        PERFORM {schema}.happen(side, 'gone comes', NULL, code, why);
    END LOOP;
    UPDATE {schema}.endpoints AS own SET number = NULL WHERE own.link_id = over_link;
END
$function$;
