-- End the turn of messages on trial in this transaction, with `done` of them finished. A trial of a message ends with
-- it, that of a group with its last message.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.end_attempt(of_queue integer, of_token bigint, done integer) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    DELETE FROM {schema}.trials AS trial
    WHERE trial.queue_id = of_queue AND trial.token = of_token AND (
        trial.group_key IS NULL OR trial.remaining <= done OR NOT EXISTS (
            SELECT FROM {schema}.entries AS entry
            WHERE entry.queue_id = of_queue AND entry.group_key = trial.group_key
        )
    );
    UPDATE {schema}.trials AS trial SET
        token = NULL, remaining = trial.remaining - done, times = 0
    WHERE trial.queue_id = of_queue AND trial.token = of_token;
END
$function$;
