-- Return the expired leases of a queue, each with the message that its handler had; `of_turn`: it has no holder, and
-- keeps a group at which a turn failed. `told`: it was ended so, by a holder whose failure is to be counted.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.expired_leases(of_queue integer)
RETURNS TABLE (token bigint, group_key text, entry_id bigint, worker text, expired_at timestamptz, of_turn boolean,
    told jsonb, attempt integer)
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    RETURN QUERY
    SELECT lease.token, lease.group_key, lease.entry_ids[1], lease.worker, lease.expires_at,
        lease.error IS NOT NULL, lease.told, CASE WHEN lease.told IS NOT NULL THEN (
            SELECT entry.attempt + 1 FROM {schema}.entries AS entry WHERE entry.entry_id = lease.entry_ids[1]
        ) END
    FROM {schema}.leases AS lease
    WHERE lease.queue_id = of_queue AND lease.expires_at <= clock_timestamp()
    ORDER BY lease.expires_at;
END
$function$;
