-- How many sessions of a name are in each state, and what has happened to them.
-- Caller: views.py. Index: the key.
SELECT
    count(*) FILTER (WHERE state = 0) AS idle, count(*) FILTER (WHERE state = 1) AS working,
    count(*) FILTER (WHERE state = 2) AS suspended, coalesce(sum(take_overs), 0)::bigint AS take_overs,
    coalesce(sum(conflicts), 0)::bigint AS conflicts
FROM {schema}.sessions
WHERE name = %(name)s
