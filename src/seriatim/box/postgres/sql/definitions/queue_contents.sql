-- Purpose: the messages and groups that a queue still has, each count up to 1,001.
-- Index: entries_of_group, aside_of_group, history_of_group.
SELECT
    (SELECT count(*) FROM (
        SELECT FROM {schema}.entries WHERE queue_id = %(queue_id)s LIMIT 1001
    ) AS one) AS entries,
    (SELECT count(*) FROM (
        SELECT FROM {schema}.aside WHERE queue_id = %(queue_id)s LIMIT 1001
    ) AS one) AS aside,
    (SELECT count(*) FROM (
        SELECT FROM {schema}.history WHERE queue_id = %(queue_id)s LIMIT 1001
    ) AS one) AS history
