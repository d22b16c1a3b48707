-- What an operator sees and does.

-- Replaced by the statement that lists groups, which reads no entry twice.
DROP VIEW {schema}.group_states;

-- What a group shows; the rule is that of kernel/states.py. A complete set is closed and leaves all the same.
CREATE FUNCTION {schema}.shown_state(flags bigint, suspended boolean, locked boolean, hole boolean, overdue boolean)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN flags & 2 <> 0 AND NOT (flags & 4 <> 0 AND flags & 16 <> 0) THEN 'closed'
    WHEN suspended THEN 'suspended'
    WHEN flags & 16 <> 0 THEN 'faulted'
    WHEN locked THEN 'locked'
    WHEN hole AND overdue THEN 'timed_out'
    WHEN hole THEN 'waiting'
    ELSE 'ready'
END;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC;
