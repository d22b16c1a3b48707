-- What operators look for at night: the groups that stand still, and messages by the values of their properties.

-- The groups that may stand still: suspended, faulted, or with a clock that runs (of a hole, a round or a set). Groups that
-- only work are not in it, so that a turn pays for it only where such a fact begins or ends.
CREATE INDEX groups_standing ON {schema}.known_groups (queue_id, group_key)
WHERE flags & 24 <> 0 OR since <> -4611686018427387904;

-- The groups that hand nothing out until something happens, by the rules of shown_state: suspended, faulted, timed_out or
-- waiting (for a missing number). `since`: of a hole, when it opened, else when the group was last judged. `is_timed`:
-- whether a time-out will end the hole, or report it. A group that is worked on now is not among them.
CREATE VIEW {schema}.stopped_groups WITH (security_invoker = true) AS
WITH asked AS MATERIALIZED (
    SELECT DISTINCT ON (queue_id, group_key) queue_id, group_key, action = 'suspend' AS suspends
    FROM {schema}.requests WHERE action <> 'look'
    ORDER BY queue_id, group_key, request_id DESC
), standing AS MATERIALIZED (
    SELECT queue_id, group_key, flags, since, reports, touched_at FROM {schema}.known_groups
    WHERE flags & 24 <> 0 OR since <> -4611686018427387904
    UNION
    SELECT known.queue_id, known.group_key, known.flags, known.since, known.reports, known.touched_at
    FROM asked JOIN {schema}.known_groups AS known
        ON known.queue_id = ANY (ARRAY[asked.queue_id]) AND known.group_key = ANY (ARRAY[asked.group_key])
    WHERE asked.suspends
), locked AS MATERIALIZED (
    SELECT DISTINCT (held.classid::bigint << 32) | held.objid::bigint AS lock
    FROM pg_locks AS held
    WHERE held.locktype = 'advisory' AND held.objsubid = 1 AND held.granted
        AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
)
SELECT
    place.queue_id,
    place.queue,
    standing.group_key,
    fact.state,
    CASE
        WHEN fact.state IN ('timed_out', 'waiting') THEN to_timestamp(standing.since / 1e6)
        ELSE standing.touched_at
    END AS since,
    rule.hole_timeout IS NOT NULL AS is_timed
FROM standing
JOIN {schema}.queues AS place USING (queue_id)
LEFT JOIN asked USING (queue_id, group_key)
CROSS JOIN LATERAL {schema}.policy_said(
    CASE
        WHEN jsonb_typeof(place.definition -> 'policies') = 'object'
            THEN coalesce(
                place.definition -> 'policies' -> split_part(standing.group_key, '/', 1), place.definition -> 'policy'
            )
        ELSE place.definition -> 'policy'
    END
) AS rule
CROSS JOIN LATERAL (
    SELECT {schema}.shown_state(
        standing.flags, coalesce(asked.suspends, standing.flags & 8 <> 0),
        EXISTS (SELECT FROM locked WHERE locked.lock = {schema}.group_lock(standing.queue_id, standing.group_key)) OR EXISTS (
            SELECT FROM {schema}.leases AS lease
            WHERE lease.queue_id = standing.queue_id AND lease.group_key = standing.group_key
        ),
        rule.name = 'standard' AND standing.since <> -4611686018427387904,
        rule.hole_timeout IS NOT NULL AND standing.reports > rule.hole_retries
    ) AS state
) AS fact
WHERE fact.state IN ('suspended', 'faulted', 'timed_out', 'waiting');

-- Whether a property of a message has a value that was given as text: the same text, or the same number.
CREATE FUNCTION {schema}.property_is(context jsonb, name text, value text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN coalesce(context ->> name = value, FALSE) OR CASE
    WHEN jsonb_typeof(context -> name) = 'number' AND value ~ '^-?\d{{1,40}}(\.\d{{1,40}})?$'
        THEN (context ->> name)::numeric = value::numeric
    ELSE FALSE
END;

-- Whether a message has all of these properties.
CREATE FUNCTION {schema}.has_properties(context jsonb, names text[], of_values text[]) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN NOT EXISTS (
    SELECT FROM unnest(names, of_values) AS asked (name, value)
    WHERE NOT {schema}.property_is(context, asked.name, asked.value)
);

-- The first property, by name, that has a value that was given as text; NULL: none has it.
CREATE FUNCTION {schema}.property_with(context jsonb, value text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (
    SELECT one.name FROM jsonb_object_keys(context) AS one (name)
    WHERE {schema}.property_is(context, one.name, value) ORDER BY one.name LIMIT 1
);

-- Which process completed a message, by the name that its connection told PostgreSQL. Only where the queue keeps history.
ALTER TABLE {schema}.history ADD COLUMN done_by text;
ALTER TABLE {schema}.history ALTER COLUMN done_by SET DEFAULT current_setting('application_name', TRUE);
