-- Delete what a side has said and what hasn't left: its numbers are given again.
-- is: generic plan, no seqscan
CREATE OR REPLACE FUNCTION {schema}.drop_said(of_handle uuid) RETURNS void
AS $function$
DECLARE
    lowest bigint;
BEGIN
    WITH gone AS (
        DELETE FROM {schema}.known_transmission AS one WHERE one.handle = of_handle RETURNING one.sequence, one.type
    )
    SELECT min(gone.sequence) FILTER (WHERE gone.type <> '') INTO lowest FROM gone;
    UPDATE {schema}.endpoints AS known SET send_sequence = lowest WHERE known.handle = of_handle AND lowest IS NOT NULL;
END
$function$;
