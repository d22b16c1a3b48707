-- What is defined now, and what the caller routes by, stays in use until its transaction ends: who takes it away waits
-- for that. A transaction that keeps its snapshot fails where something was taken away, or stopped, that it still sees.
-- Answers with the version.
CREATE OR REPLACE FUNCTION {schema}.hold_definitions() RETURNS bigint
AS $function$
DECLARE
    -- Not by PERFORM, which runs a query.
    held boolean := pg_try_advisory_xact_lock_shared({schema}.lock_of('publishers'))
        OR {schema}.wait_for_lock({schema}.lock_of('publishers'), TRUE, 'publishing');
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM FROM {schema}.queues FOR SHARE;
        PERFORM FROM {schema}.known_subscriptions FOR SHARE;
    END IF;
    RETURN (SELECT version FROM {schema}.changes ORDER BY version DESC LIMIT 1);
END
$function$;
