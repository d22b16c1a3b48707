-- Number the entries of some arrivals in these queues, in the order of arrival: each gets the next place of its group
-- at a gate (`give_places`), or the position of its ticket as its sequence (`number_sequences`).
-- is: generic plan, no seqscan, no bitmapscan, no hashjoin, no mergejoin
CREATE OR REPLACE FUNCTION {schema}.number_places(of_queues integer[], of_arrivals bigint[]) RETURNS void
AS $function$
DECLARE
    ids bigint[];
    queues integer[];
    keys text[];
    ordinals bigint[];
    counted integer[] := {schema}.counting(of_queues);
BEGIN
    IF (counted @> of_queues) IS NOT TRUE THEN
        PERFORM {schema}.number_sequences(
            ARRAY(SELECT unnest(of_queues) EXCEPT SELECT unnest(counted)), of_arrivals
        );
    END IF;
    SELECT
        array_agg(entry.entry_id ORDER BY run.stamp, entry.serial, entry.entry_id),
        array_agg(entry.queue_id ORDER BY run.stamp, entry.serial, entry.entry_id),
        array_agg(entry.group_key ORDER BY run.stamp, entry.serial, entry.entry_id)
    INTO ids, queues, keys
    FROM (SELECT DISTINCT unnest(of_arrivals) AS arrival_id) AS one
    JOIN {schema}.entries AS entry ON entry.arrival_id = ANY (ARRAY[one.arrival_id])
    JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[one.arrival_id])
    WHERE (entry.queue_id = ANY (counted) AND entry.ordinal IS NULL) IS TRUE;
    IF ids IS NULL THEN
        RETURN;
    END IF;
    ordinals := {schema}.give_places(queues, keys);
    UPDATE {schema}.entries AS entry SET ordinal = given.ordinal
    FROM unnest(ids, ordinals) AS given (entry_id, ordinal)
    WHERE entry.entry_id = ANY (ARRAY[given.entry_id]);
END
$function$;
