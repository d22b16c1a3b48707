-- The other box has these messages, or nobody needs them any more. The disk isn't waited for: one that comes back is
-- struck off once more.
-- is: own path, no seqscan
CREATE OR REPLACE FUNCTION {schema}.region_strike(of_name text, of_messages text[]) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.commit_early();
    DELETE FROM {schema}.region_outbox AS one WHERE one.name = of_name AND one.message_id = ANY (of_messages);
END
$function$;
