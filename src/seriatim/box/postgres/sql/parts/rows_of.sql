-- The rows of the table {0} that have the messages of {1}: looked up for each.
SELECT its.* FROM {1} CROSS JOIN LATERAL (
    SELECT * FROM {schema}.{0} AS one
    WHERE one.arrival_id = {1}.arrival_id AND one.position = {1}.position OFFSET 0
) AS its
