-- Remove messages from the outbox that the other box has, or that aren't needed any more. It doesn't wait for the
-- disk: a message that comes back is removed once more.
-- is: own path, no seqscan
CREATE OR REPLACE FUNCTION {schema}.region_strike(of_name text, of_messages text[]) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.commit_early();
    DELETE FROM {schema}.region_outbox AS one WHERE one.name = of_name AND one.message_id = ANY (of_messages);
END
$function$;
