-- Purpose: delete waiting receivers whose connections are gone.
-- Locks: the rows that go.
-- Index: none; there are as many as wait.
DELETE FROM {schema}.waiters AS waiter WHERE NOT EXISTS (
    SELECT FROM pg_stat_activity AS activity
    WHERE 'seriatim_' || activity.pid = waiter.channel AND coalesce(activity.backend_start <= waiter.since, TRUE)
)
