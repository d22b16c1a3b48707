-- At the commit of a transaction that received in SQL, make its unfinished messages a lease that lasts from now on, and
-- delete the record of a delivery that is finished: nobody else has seen it. Refuse the commit if messages of a
-- service's queue are unfinished.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.lease_at_commit() RETURNS trigger
AS $function$
DECLARE
    kept record;
BEGIN
    DELETE FROM {schema}.deliveries WHERE delivery_id = NEW.delivery_id AND ended_at IS NOT NULL;
    IF FOUND THEN
        RETURN NULL;
    END IF;
    PERFORM FROM {schema}.known_services WHERE queue_id = NEW.queue_id;
    IF FOUND THEN
        RAISE EXCEPTION 'messages of a service''s queue can''t stay in hand beyond the transaction' USING
            ERRCODE = 'SQ006',
            HINT = 'complete all of them before COMMIT, or give_back the delivery; hand what takes long to another queue';
    END IF;
    SELECT * INTO kept FROM {schema}.deliveries WHERE delivery_id = NEW.delivery_id;
    IF kept.group_key IS NOT NULL THEN
        PERFORM {schema}.queue_again(
            kept.queue_id, kept.group_key, kept.entry_ids[kept.done + 1:], kept.ordinals[kept.done + 1:],
            kept.lates[kept.done + 1:]
        );
    END IF;
    UPDATE {schema}.leases AS lease SET
        claimed_at = clock_timestamp(), renewed_at = clock_timestamp(), expires_at = clock_timestamp() + kept.period
    WHERE lease.token = NEW.token AND lease.expires_at = 'infinity';
    RETURN NULL;
END
$function$;
