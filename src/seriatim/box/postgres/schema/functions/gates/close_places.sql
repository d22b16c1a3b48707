-- Return which places of a gate's groups are closed: the run of them from the group's next number on, at most `most`
-- numbers of each group; and, for the clock of a hole, the first closed place behind an open one. Of the groups
-- `forced` (as long as `of_groups`; NULL: of none) all places up to that number are closed by force.
--
-- `through`, `behind`: by group, the last number whose results leave their places, and the number of that first
-- closed place behind (NULL: there is none, or it has no results). Results with numbers below the next one come, too:
-- they are late. `late_places`, `late_numbers`: groups (from 0) and numbers whose results leave flagged as late, also
-- behind the next number. `full_groups`: the groups of which `open_at_most` numbers, or more, were given from the
-- next one on. `void_places`, `void_numbers`: the closed places without result, by group (from 0) and number. `more`:
-- whether a group has more closed places, for which it is judged again.
--
-- A place with a number is open as long as an entry of it exists. So the numbers are read first, then the living
-- entries, and then the results, each by a separate statement with a younger snapshot: all results of entries that
-- had ended by the second read are visible to the third, and to `turn_entries_gate`. The caller has locked the
-- groups.
-- is: definer, generic plan, no seqscan, no bitmapscan, no hashjoin, no mergejoin, no sort
CREATE OR REPLACE FUNCTION {schema}.close_places(
    of_gate integer, of_origin integer, of_groups text[], most integer, open_at_most integer,
    forced bigint[] DEFAULT NULL,
    OUT group_keys text[], OUT void_places bigint[], OUT void_numbers bigint[], OUT more boolean,
    OUT full_groups text[],
    OUT late_places bigint[], OUT late_numbers bigint[], OUT through bigint[], OUT behind bigint[]
)
AS $function$
DECLARE
    place integer;
    of_group text;
    known record;
    following bigint;
    given bigint;
    alive bigint;
    last bigint;
    bound bigint;
    waiting bigint;
    nearest bigint;
    goes_on boolean;
    -- A gate may have a gate itself: there the places are its own numbers.
    next_gate integer := (
        SELECT way.gate_id FROM {schema}.ways AS way WHERE way.queue_id = of_gate AND way.is_origin
    );
    numbers bigint[];
    voids bigint[];
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_gate]);
    group_keys := of_groups;
    void_places := ARRAY[]::bigint[];
    void_numbers := ARRAY[]::bigint[];
    more := FALSE;
    full_groups := ARRAY[]::text[];
    late_places := ARRAY[]::bigint[];
    late_numbers := ARRAY[]::bigint[];
    through := array_fill(NULL::bigint, ARRAY[cardinality(of_groups)]);
    behind := through;
    -- The requests of this transaction are answered now: see `look_at_gate`.
    IF current_setting('seriatim.looked_{schema_name}', TRUE) <> '' THEN
        PERFORM set_config('seriatim.looked_{schema_name}', '', TRUE);
    END IF;
    FOR place IN 1 .. cardinality(of_groups) LOOP
        of_group := of_groups[place];
        SELECT one.next, one.flags INTO known FROM {schema}.known_groups AS one
        WHERE one.queue_id = of_gate AND one.group_key = of_group;
        IF known.flags & {flag.CLOSED} <> 0 THEN
            -- A closed group takes nothing in: all results are late.
            through[place] := 9223372036854775807;
            CONTINUE;
        END IF;
        -- Nothing leaves a suspended or faulted group: it is judged when it goes on.
        CONTINUE WHEN known.flags & {flag.SUSPENDED|FAULTED} <> 0 AND forced[place] IS NULL AND NOT EXISTS (
            SELECT FROM {schema}.requests AS request
            WHERE request.queue_id = of_gate AND request.group_key = of_group AND request.action = 'resume'
        );
        following := coalesce(known.next, 1);
        given := {schema}.place_numbers_given(of_origin, of_group);
        IF given >= following + open_at_most THEN
            full_groups := full_groups || of_group;
        END IF;
        -- A separate statement: it sees the numbers that `given` counts.
        alive := (
            SELECT coalesce(entry.origin_number, entry.ordinal) FROM {schema}.entries AS entry
            WHERE {is_on_way(entry)}
                AND coalesce(entry.origin_number, entry.ordinal) >= following
            ORDER BY coalesce(entry.origin_number, entry.ordinal) LIMIT 1
        );
        last := least(coalesce(alive, given + 1) - 1, given, following + most - 1);
        goes_on := last < least(coalesce(alive, given + 1) - 1, given);
        IF goes_on THEN
            more := TRUE;
            INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
            VALUES (of_gate, of_group, 'look', {schema}.now_us());
        END IF;
        bound := greatest(last, following - 1, forced[place]);
        through[place] := bound;
        IF last >= following THEN
            -- Likewise.
            numbers := ARRAY(
                SELECT entry.origin_number FROM {schema}.entries AS entry
                WHERE entry.queue_id = of_gate AND entry.group_key = of_group AND entry.status = 'placed'
                    AND entry.origin_number >= following AND entry.origin_number <= last
                ORDER BY entry.origin_number
            );
            voids := ARRAY(
                SELECT number FROM generate_series(following, last) AS number
                WHERE number <> ALL (numbers)
                EXCEPT SELECT entry.sequence FROM {schema}.entries AS entry
                WHERE entry.queue_id = of_gate AND entry.group_key = of_group AND entry.status IN ('held', 'arrived')
                    AND NOT entry.late AND entry.sequence >= following AND entry.sequence <= last
                ORDER BY number
            );
        END IF;
        IF alive IS NOT NULL AND NOT goes_on THEN
            -- Messages that wait behind an open place already, and those that would be the first to wait.
            waiting := (
                SELECT entry.sequence FROM {schema}.entries AS entry
                WHERE entry.queue_id = of_gate AND entry.group_key = of_group AND entry.status = 'held'
                    AND NOT entry.late AND entry.sequence > alive
                ORDER BY entry.sequence LIMIT 1
            );
            nearest := (
                SELECT entry.origin_number FROM {schema}.entries AS entry
                WHERE entry.queue_id = of_gate AND entry.group_key = of_group AND entry.status = 'placed'
                    AND entry.origin_number > alive AND entry.origin_number <= given
                    AND (waiting IS NULL OR entry.origin_number < waiting)
                    AND NOT EXISTS (
                        SELECT FROM {schema}.entries AS other
                        WHERE {is_on_way(other)}
                            AND coalesce(other.origin_number, other.ordinal) = entry.origin_number
                    )
                ORDER BY entry.origin_number LIMIT 1
            );
            behind[place] := nearest;
            nearest := coalesce(nearest, waiting);
            IF nearest IS NOT NULL THEN
                voids := voids || ARRAY(
                    SELECT number FROM generate_series(alive, nearest - 1) AS number
                    EXCEPT SELECT coalesce(entry.origin_number, entry.ordinal) FROM {schema}.entries AS entry
                    WHERE {is_on_way(entry)}
                        AND coalesce(entry.origin_number, entry.ordinal) >= alive
                        AND coalesce(entry.origin_number, entry.ordinal) < nearest
                    EXCEPT SELECT entry.sequence FROM {schema}.entries AS entry
                    WHERE entry.queue_id = of_gate AND entry.group_key = of_group
                        AND entry.status IN ('placed', 'arrived')
                        AND entry.sequence >= alive AND entry.sequence < nearest
                    ORDER BY number
                );
            END IF;
        END IF;
        IF next_gate IS NOT NULL OR forced[place] IS NOT NULL THEN
            PERFORM {schema}.leave_places(of_gate, of_group, next_gate, bound, behind[place]);
        END IF;
        IF cardinality(voids) > 0 THEN
            void_numbers := void_numbers || voids;
            void_places := void_places || array_fill(place::bigint - 1, ARRAY[cardinality(voids)]);
            voids := NULL;
        END IF;
        -- Read after the living entries: the results of ended ones are visible.
        numbers := ARRAY(
            SELECT late.number FROM {schema}.late_places AS late
            WHERE late.gate_id = of_gate AND late.group_key = of_group
        );
        IF cardinality(numbers) > 0 THEN
            -- All results of places that have passed, and have nothing on the way any more, are there.
            DELETE FROM {schema}.late_places AS late
            WHERE late.gate_id = of_gate AND late.group_key = of_group AND late.number < following AND NOT EXISTS (
                SELECT FROM {schema}.entries AS entry
                WHERE {is_on_way(entry)}
                    AND coalesce(entry.origin_number, entry.ordinal) = late.number
            );
            late_numbers := late_numbers || numbers;
            late_places := late_places || array_fill(place::bigint - 1, ARRAY[cardinality(numbers)]);
        END IF;
    END LOOP;
END
$function$;
