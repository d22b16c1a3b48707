-- Claim a chore until the transaction ends, even if it does nothing for long.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.claim_chore(chore text) RETURNS boolean
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    PERFORM set_config(name, '0', TRUE) FROM pg_settings
    WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout');
    RETURN pg_try_advisory_xact_lock({schema}.lock_of('chore ' || chore));
END
$function$;
