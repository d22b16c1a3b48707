-- Purpose: how many messages a queue has (counted up to 1,000); and how many are on the way to its gate, or wait there
-- for places to be closed.
-- Index: entries_of_group, entries_on_way.
SELECT
    (
        SELECT count(*) FROM (SELECT FROM {schema}.entries WHERE queue_id = %(queue_id)s LIMIT 1000) AS counted
    ) AS waiting,
    (
        SELECT count(*) FROM (
            SELECT FROM {schema}.entries WHERE gate_id = %(gate_id)s AND gate_id <> queue_id LIMIT 1000
        ) AS counted
    ) + (
        SELECT count(*) FROM (
            SELECT FROM {schema}.entries WHERE queue_id = %(gate_id)s AND status IN ('placed', 'held') LIMIT 1000
        ) AS counted
    ) AS open
