-- Make a lease of the first `how_many` messages that were handed out, for a caller that holds it by its id, and put all
-- of them back. `at_commit`: it begins at the caller's commit. No id is returned where the attempt has a lease
-- already: then the caller rolls back.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.lease_out(
    of_queue integer, of_group text, of_entries bigint[], ordinals bigint[], lates boolean[], how_many integer,
    of_holder text, of_attempt text, period interval, is_set boolean, at_commit boolean,
    OUT delivery uuid, OUT token bigint, OUT until timestamptz
)
AS $function$
#variable_conflict use_variable
DECLARE
    claimed record;
BEGIN
    claimed := {schema}.claim_lease(
        of_queue, of_group, of_entries, ordinals, lates, how_many,
        concat_ws(' ', {schema}.caller(), nullif(of_holder, '')), CASE WHEN NOT at_commit THEN period END
    );
    token := claimed.token;
    until := CASE WHEN at_commit THEN clock_timestamp() + period ELSE (
        SELECT own.expires_at FROM {schema}.leases AS own WHERE own.token = claimed.token
    ) END;
    INSERT INTO {schema}.deliveries (
        queue_id, group_key, incarnation, token, role, holder, attempt_id, period, at_commit, is_set, size, entry_ids,
        ordinals, lates
    )
    VALUES (
        of_queue, of_group, coalesce(claimed.incarnation, 0), token, {schema}.caller(), of_holder, of_attempt, period,
        at_commit, is_set, how_many, of_entries[:how_many], ordinals[:how_many], lates[:how_many]
    )
    ON CONFLICT DO NOTHING RETURNING delivery_id INTO delivery;
END
$function$;
