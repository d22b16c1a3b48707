-- Give messages whose reservations have ended other numbers of the journal. Rows that another process has changed
-- since stay.
-- is: own path, no seqscan
CREATE OR REPLACE FUNCTION {schema}.region_wait_anew(
    of_messages bigint[], of_numbers bigint[], new_numbers bigint[], reservations text[]
) RETURNS bigint
AS $function$
DECLARE
    changed bigint;
BEGIN
    UPDATE {schema}.region_waiting AS one SET number = given.new_number, reservation = given.reservation
    FROM unnest(
        of_messages, of_numbers, new_numbers, reservations
    ) AS given (waiting_id, number, new_number, reservation)
    WHERE one.waiting_id = given.waiting_id AND one.number = given.number;
    GET DIAGNOSTICS changed = ROW_COUNT;
    RETURN changed;
END
$function$;
