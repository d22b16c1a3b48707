-- Make the transaction number, at its commit, its entries in these queues, of these arrivals; NULL: of all of its
-- own.
CREATE OR REPLACE FUNCTION {schema}.number_at_commit(of_queues integer[], of_arrivals bigint[]) RETURNS void
AS $function$
BEGIN
    INSERT INTO {schema}.arrivals (location, count, numbered_queues, entered) VALUES ('', 0, of_queues, coalesce(
        of_arrivals,
        ARRAY(SELECT arrival_id FROM {schema}.arrivals WHERE transaction = pg_current_xact_id() AND count > 0)
    ));
END
$function$;
