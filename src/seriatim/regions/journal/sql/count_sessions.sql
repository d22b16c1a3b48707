-- How many sessions of a name are in each state, and what has happened to them.
SELECT
    count(*) FILTER (WHERE state = {session.IDLE}) AS idle,
    count(*) FILTER (WHERE state = {session.WORKING}) AS working,
    count(*) FILTER (WHERE state = {session.SUSPENDED}) AS suspended,
    coalesce(sum(take_overs), 0)::bigint AS take_overs,
    coalesce(sum(conflicts), 0)::bigint AS conflicts
FROM {schema}.sessions
WHERE name = %(name)s
