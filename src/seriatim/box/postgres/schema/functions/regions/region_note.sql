-- Note the messages that this transaction has taken in: their numbers here, that the other box lacks them, and in how
-- many microseconds they are handed out, NULL: at once. `numbered`: rows of `of_messages`, from 1, a row for each
-- number.
-- is: own path, no seqscan
CREATE OR REPLACE FUNCTION {schema}.region_note(
    of_name text, of_messages text[], ages bigint[], delays bigint[], is_copy boolean, numbered bigint[],
    of_queues integer[], of_sessions text[],
    of_numbers bigint[], votes boolean[], besides boolean[]
) RETURNS void
AS $function$
DECLARE
    arrivals bigint[];
    positions bigint[];
BEGIN
    SELECT array_agg(stored.arrival_id ORDER BY given.nth), array_agg(stored.position ORDER BY given.nth)
    INTO arrivals, positions
    FROM unnest(of_messages) WITH ORDINALITY AS given (message_id, nth)
    LEFT JOIN (
        SELECT one.message_id, one.arrival_id, one.position
        FROM {schema}.arrivals AS mine JOIN {schema}.spool AS one ON one.arrival_id = ANY (ARRAY[mine.arrival_id])
        WHERE mine.transaction = pg_current_xact_id()
    ) AS stored USING (message_id);
    INSERT INTO {schema}.region_numbers (
        queue_id, session, number, message_id, voted, is_copy, beside, arrival_id, position, published_at
    )
    SELECT given.queue_id, given.session, given.number, given.message_id, given.voted, region_note.is_copy,
        given.beside,
        arrivals[given.place], positions[given.place], now() - ages[given.place] * interval '1 microsecond'
    FROM unnest(
        numbered, of_queues, of_sessions, of_numbers, votes, besides, {schema}.items_at(of_messages, numbered)
    ) AS given (place, queue_id, session, number, voted, beside, message_id);
    UPDATE {schema}.region_sessions AS known SET through = greatest(known.through, highest.number)
    FROM (
        SELECT given.queue_id, given.session, max(given.number) AS number
        FROM unnest(of_queues, of_sessions, of_numbers) AS given (queue_id, session, number) GROUP BY 1, 2
    ) AS highest
    WHERE known.queue_id = highest.queue_id AND known.session = highest.session;
    IF NOT is_copy THEN
        INSERT INTO {schema}.region_outbox (name, message_id, arrival_id, position, published_at)
        SELECT of_name, given.message_id, given.arrival_id, given.position,
            now() - given.age * interval '1 microsecond'
        FROM unnest(of_messages, arrivals, positions, ages) WITH ORDINALITY
            AS given (message_id, arrival_id, position, age, nth)
        ORDER BY given.nth ON CONFLICT DO NOTHING;
    END IF;
    IF is_copy THEN
        -- A copy has its original's time of publishing. A message is found by this time, which is kept with
        -- its id.
        UPDATE {schema}.spool AS stored SET received_at = now() - given.age * interval '1 microsecond'
        FROM unnest(arrivals, positions, ages) AS given (arrival_id, position, age)
        WHERE stored.arrival_id = ANY (ARRAY[given.arrival_id]) AND stored.position = ANY (ARRAY[given.position]);
        UPDATE {schema}.message_ids AS known SET published_at = now() - given.age * interval '1 microsecond'
        FROM unnest(of_messages, ages) AS given (message_id, age)
        WHERE known.message_id = given.message_id AND known.id_space = '';
    END IF;
    IF cardinality(array_remove(delays, NULL)) > 0 THEN
        UPDATE {schema}.entries AS entry SET
            visible_at = clock_timestamp() + given.delay * interval '1 microsecond', delayed_at = clock_timestamp()
        FROM unnest(arrivals, positions, delays) AS given (arrival_id, position, delay)
        WHERE given.delay IS NOT NULL AND entry.arrival_id = ANY (ARRAY[given.arrival_id])
            AND entry.position = ANY (ARRAY[given.position]);
        UPDATE {schema}.spool AS stored SET visible_at = clock_timestamp() + given.delay * interval '1 microsecond'
        FROM unnest(arrivals, positions, delays) AS given (arrival_id, position, delay)
        WHERE given.delay IS NOT NULL AND stored.arrival_id = ANY (ARRAY[given.arrival_id])
            AND stored.position = ANY (ARRAY[given.position]);
    END IF;
END
$function$;
