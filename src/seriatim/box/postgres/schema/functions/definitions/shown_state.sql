-- Return the state that a group shows, by the table of `kernel/groups/states.py`.
-- is: sql, immutable, parallel safe
CREATE OR REPLACE FUNCTION {schema}.shown_state(
    flags bigint, suspended boolean, locked boolean, hole boolean, overdue boolean
)
RETURNS text
RETURN CASE
    {SHOWN_STATES}
END;
