-- What was released at a gate, and not handed out, is handed out without a turn also while the gate is to look at other groups: a group
-- that was asked for later waits its turn, as one does in which messages have arrived later. The group's own look waits, too, unless it
-- has less than is asked for.
DO $all$
DECLARE
    one record;
    known regprocedure := '{schema}.hand_out'::regproc;
    body text := pg_get_functiondef(known);
BEGIN
    FOR one IN
        SELECT * FROM (VALUES
            ($q$request WHERE request.queue_id = of_queue) OR EXISTS ($q$,
            $q$request WHERE request.queue_id = of_queue AND request.action <> 'look') OR EXISTS ($q$),
            ($q$        (
            SELECT entry.rank FROM$q$, $q$        least((
            SELECT request.rank FROM {schema}.requests AS request
            WHERE request.queue_id = of_queue AND request.action = 'look' AND named IS NULL
            ORDER BY request.rank LIMIT 1
        ), (
            SELECT entry.rank FROM$q$),
            ($q$            ORDER BY entry.rank LIMIT 1
        ) AS oldest,$q$, $q$            ORDER BY entry.rank LIMIT 1
        )) AS oldest,$q$),
            ($q$requests WHERE queue_id = of_queue AND requests.group_key = candidate$q$,
            $q$requests
                    WHERE queue_id = of_queue AND requests.group_key = candidate AND requests.action <> 'look'$q$),
            ($q$    IF line.waiting < at_most THEN
$q$, $q$    IF line.waiting < at_most THEN
        PERFORM FROM {schema}.requests AS one WHERE one.queue_id = of_queue AND one.group_key = chosen;
        IF FOUND THEN
            RETURN;
        END IF;
$q$)
        ) AS wanted (old, new)
    LOOP
        IF (length(body) - length(replace(body, one.old, ''))) <> length(one.old) THEN
            RAISE EXCEPTION 'not once in hand_out: %', one.old;
        END IF;
        body := replace(body, one.old, one.new);
    END LOOP;
    EXECUTE body;
END
$all$;
