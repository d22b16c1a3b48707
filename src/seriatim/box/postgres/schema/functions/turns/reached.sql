-- Return the rank from which a transaction looks for its next group, see `reach`; the lowest possible number: from
-- the beginning.
-- is: stable
CREATE OR REPLACE FUNCTION {schema}.reached(of_queue integer) RETURNS bigint
AS $function$
DECLARE
    place bigint[] := nullif(current_setting('seriatim.reached_{schema_name}_' || of_queue, TRUE), '');
BEGIN
    RETURN CASE WHEN place[2] > {schema}.now_us() THEN place[1] ELSE -9223372036854775808 END;
END
$function$;
