-- Return whether messages published through SQL wait to be routed. The order leaves one index to choose.
-- is: stable, generic plan, no seqscan, no sort
CREATE OR REPLACE FUNCTION {schema}.is_left(settled xid8, unsettled xid8[]) RETURNS boolean
AS $function$
BEGIN
    RETURN (
        SELECT transaction FROM {schema}.to_route WHERE transaction >= settled ORDER BY transaction LIMIT 1
    ) IS NOT NULL OR cardinality(unsettled) > 0 AND EXISTS (
        SELECT FROM {schema}.to_route WHERE transaction = ANY (unsettled)
    );
END
$function$;
