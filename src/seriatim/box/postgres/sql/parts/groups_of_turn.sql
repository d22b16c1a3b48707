-- Purpose: `known`: the state of the groups {1} of the queue {0}.
CROSS JOIN LATERAL (
    SELECT
        array_agg(group_key) AS group_keys, array_agg(incarnation) AS incarnations, array_agg(state) AS states,
        array_agg(skipped::text) AS skipped, array_agg(arrivals) AS group_arrivals, array_agg(decided) AS decided,
        array_agg(remembered) AS remembered, array_agg(is_marked) AS are_marked, array_agg(on_trial) AS are_on_trial,
        array_agg(lives) AS lives
    FROM {schema}.turn_groups({0}, {1})
) AS known
