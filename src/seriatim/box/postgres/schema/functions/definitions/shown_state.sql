-- Return what a group shows, by the rule of kernel/states.py. A set that is complete is closed and leaves all the same,
-- so a fault of it shows. A group that isn't opened waits for that.
-- is: sql, immutable, parallel safe
CREATE OR REPLACE FUNCTION {schema}.shown_state(
    flags bigint, suspended boolean, locked boolean, hole boolean, overdue boolean
)
RETURNS text
RETURN CASE
    WHEN flags & {flag.CLOSED} <> 0 AND NOT (flags & {flag.COMPLETE} <> 0 AND flags & {flag.FAULTED} <> 0) THEN 'closed'
    WHEN suspended THEN 'suspended'
    WHEN flags & {flag.FAULTED} <> 0 THEN 'faulted'
    WHEN locked THEN 'locked'
    WHEN hole AND overdue THEN 'timed_out'
    WHEN hole OR flags & {flag.UNOPENED} <> 0 THEN 'waiting'
    ELSE 'ready'
END;
