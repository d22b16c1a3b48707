-- Return the groups of a queue with arrivals, by key: one look at the index for each, whatever it has.
-- is: stable, generic plan, no seqscan, no bitmapscan
CREATE OR REPLACE FUNCTION {schema}.groups_with_arrivals(of_queue integer) RETURNS SETOF text
AS $function$
DECLARE
    known record;
    last text := '';
BEGIN
    -- In the index "arrived" is the first status of a group.
    SELECT entry.group_key, entry.status INTO known FROM {schema}.entries AS entry
    WHERE entry.queue_id = of_queue AND entry.group_key >= last
    ORDER BY entry.group_key, entry.status LIMIT 1;
    WHILE FOUND LOOP
        last := known.group_key;
        IF known.status = 'arrived' THEN
            RETURN NEXT last;
        END IF;
        SELECT entry.group_key, entry.status INTO known FROM {schema}.entries AS entry
        WHERE entry.queue_id = of_queue AND entry.group_key > last
        ORDER BY entry.group_key, entry.status LIMIT 1;
    END LOOP;
END
$function$;
