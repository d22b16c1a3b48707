-- Note for this transaction how far it has come in a queue: the rank of what it has received last. What it has received
-- stays in the indexes as long as it goes on, and each look from the beginning would read all of that again. It looks
-- so every ten seconds, because what came later may go before, and where it finds nothing else.
CREATE OR REPLACE FUNCTION {schema}.reach(of_queue integer, rank bigint) RETURNS void
AS $function$
DECLARE
    its_name CONSTANT text := 'seriatim.reached_{schema_name}_' || of_queue;
    place bigint[] := nullif(current_setting(its_name, TRUE), '');
    moment_us bigint := {schema}.now_us();
BEGIN
    PERFORM set_config(
        its_name, ARRAY[rank, CASE WHEN place[2] > moment_us THEN place[2] ELSE moment_us + 10000000 END]::text, TRUE
    );
END
$function$;
