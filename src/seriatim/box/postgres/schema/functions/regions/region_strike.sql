-- Remove messages from the outbox that the other box has, or that aren't needed any more. `counted`: the incarnation in
-- which the other box had them: one that was restored since lacks them again; NULL: none has to have them. It doesn't
-- wait for the disk: a message that comes back is removed once more.
-- is: own path, no seqscan
CREATE OR REPLACE FUNCTION {schema}.region_strike(of_name text, of_messages text[], counted bigint) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.commit_early();
    IF (SELECT role.fence > counted FROM {schema}.region_role_held(of_name) AS role) THEN
        RETURN;
    END IF;
    DELETE FROM {schema}.region_outbox AS one WHERE one.name = of_name AND one.message_id = ANY (of_messages);
END
$function$;
