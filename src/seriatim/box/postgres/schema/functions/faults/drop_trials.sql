-- Delete the trials of groups, and of messages, that are gone.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.drop_trials(of_queue integer) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    DELETE FROM {schema}.trials AS trial
    WHERE trial.queue_id = of_queue AND NOT EXISTS (
        SELECT FROM {schema}.entries AS entry
        WHERE entry.queue_id = of_queue AND entry.group_key = trial.group_key
    ) AND NOT EXISTS (
        SELECT FROM {schema}.entries AS entry WHERE trial.group_key IS NULL AND entry.entry_id = trial.entry_id
    );
END
$function$;
