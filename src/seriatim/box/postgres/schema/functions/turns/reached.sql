-- Return the rank from which a transaction looks for its next group, see `reach`; the lowest possible number: from
-- the beginning, as it does as long as it has written nothing, and so received nothing.
-- is: sql
CREATE OR REPLACE FUNCTION {schema}.reached(of_queue integer) RETURNS bigint
RETURN CASE
    WHEN pg_current_xact_id_if_assigned() IS NULL THEN -9223372036854775808
    WHEN (nullif(current_setting('seriatim.reached_{schema_name}_' || of_queue, TRUE), '')::bigint[])[2] > {schema}.now_us()
        THEN (current_setting('seriatim.reached_{schema_name}_' || of_queue, TRUE)::bigint[])[1]
    ELSE -9223372036854775808
END;
