-- Note how far this transaction has come in a queue: the rank of its last received message. Its received messages
-- stay in the indexes as long as it runs, and each look from the beginning would read all of them again. It looks
-- from there every ten seconds, because later messages may go before, and when it finds nothing else.
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
