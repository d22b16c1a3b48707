-- Forget sessions below a key, of which all is over in the journal: at most so many; how many they were.
-- is: own path
CREATE OR REPLACE FUNCTION {schema}.region_forget(
    of_name text, of_queue text, before text, at_most integer
) RETURNS bigint
AS $function$
DECLARE
    its_queue integer := {schema}.region_queue_id(of_name, of_queue);
    chosen text[];
BEGIN
    UPDATE {schema}.region_queues AS regional SET over_before = before
    WHERE regional.queue_id = its_queue
        AND (regional.over_before IS NULL OR regional.over_before < before COLLATE "C");
    SELECT array_agg(one.session) INTO chosen
    FROM (
        SELECT known.session FROM {schema}.region_sessions AS known
        WHERE known.queue_id = its_queue AND known.session < before COLLATE "C" ORDER BY known.session LIMIT at_most
    ) AS one
    WHERE pg_try_advisory_xact_lock({schema}.group_lock(its_queue, one.session));
    DELETE FROM {schema}.region_sessions AS known
    WHERE known.queue_id = its_queue AND known.session = ANY (chosen);
    DELETE FROM {schema}.region_numbers AS one WHERE one.queue_id = its_queue AND one.session = ANY (chosen);
    DELETE FROM {schema}.known_groups AS known
    WHERE known.queue_id = its_queue AND known.group_key = ANY (chosen) AND NOT EXISTS (
        SELECT FROM {schema}.entries AS entry
        WHERE entry.queue_id = its_queue AND entry.group_key = known.group_key
    );
    RETURN coalesce(cardinality(chosen), 0);
END
$function$;
