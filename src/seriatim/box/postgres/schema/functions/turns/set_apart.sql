-- Keep all receivers from a group at which a turn has failed, for some time: so the other groups go on.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.set_apart(
    of_queue integer, of_group text, of_worker text, its_error text, period interval
) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    INSERT INTO {schema}.leases (queue_id, group_key, entry_ids, worker, expires_at, error)
    VALUES (of_queue, of_group, '{0}', of_worker, clock_timestamp() + period, its_error)
    ON CONFLICT DO NOTHING;
END
$function$;
