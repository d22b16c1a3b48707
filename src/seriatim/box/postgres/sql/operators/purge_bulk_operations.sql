-- Purpose: delete groups of bulk operations that ended, or were gathered and never begun, before some moment, and then
-- these operations; at most so many groups.
-- Locks: the rows that go, which no other transaction needs.
-- Index: bulk_operations_pkey, bulk_groups_pkey.
WITH old AS MATERIALIZED (
    SELECT bulk_id FROM {schema}.bulk_operations
    WHERE ended_at < %(before)s OR begun_at IS NULL AND gathered_at < %(before)s
    ORDER BY bulk_id LIMIT 100
), gone AS (
    DELETE FROM {schema}.bulk_groups AS one USING (
        SELECT its.bulk_id, its.queue_id, its.group_key FROM old JOIN {schema}.bulk_groups AS its USING (bulk_id)
        LIMIT %(batch)s
    ) AS chosen
    WHERE one.bulk_id = chosen.bulk_id AND one.queue_id = chosen.queue_id AND one.group_key = chosen.group_key
    RETURNING 1
), counted AS (
    SELECT count(*) AS groups FROM gone
), emptied AS (
    DELETE FROM {schema}.bulk_operations AS one USING old, counted
    WHERE one.bulk_id = old.bulk_id AND counted.groups = 0
    RETURNING 1
)
SELECT counted.groups + (SELECT count(*) FROM emptied) AS looked, (SELECT count(*) FROM emptied) AS bulk_operations FROM counted
