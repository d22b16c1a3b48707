-- Purpose: begin anew periods beside queues that count from a future time: timers and lifetimes of dialogs, when a link
-- tries again, and when a process was seen last.
-- Locks: the rows.
-- Index: none; all are read.
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at
), dialogs AS (
    UPDATE {schema}.endpoints AS side SET
        timer_at = CASE
            WHEN side.timer_set_at > moment.at THEN moment.at + (side.timer_at - side.timer_set_at) ELSE side.timer_at
        END,
        timer_set_at = least(side.timer_set_at, moment.at),
        expires_at = CASE
            WHEN side.began_at > moment.at THEN moment.at + (side.expires_at - side.began_at) ELSE side.expires_at
        END,
        began_at = least(side.began_at, moment.at)
    FROM moment
    WHERE side.due_at > moment.at AND (
        side.timer_at IS NOT NULL AND side.timer_set_at > moment.at
        OR side.expires_at IS NOT NULL AND side.began_at > moment.at
    )
    RETURNING 1
), streams AS (
    -- It tries again within five minutes, unless the other box asks for more.
    UPDATE {schema}.link_streams_out AS stream SET next_try_at = moment.at
    FROM moment WHERE stream.next_try_at > moment.at + interval '1 hour'
    RETURNING 1
), workers AS (
    UPDATE {schema}.known_workers AS worker SET seen_at = moment.at FROM moment WHERE worker.seen_at > moment.at
)
SELECT (SELECT count(*) FROM dialogs) + (SELECT count(*) FROM streams)
