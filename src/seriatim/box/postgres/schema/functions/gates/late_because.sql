-- Return the rule of order that has suspended a group, and the number that came: of the first late message that is
-- held; NULL: there is none any more. `policy`: its name, or `position` where a message has a position and no number.
-- `first`: the number that began the group. The words are those of kernel/values/outcome.py.
-- is: sql, immutable, parallel safe
CREATE OR REPLACE FUNCTION {schema}.late_because(policy text, first bigint, sequence bigint) RETURNS text
RETURN CASE
    WHEN policy = 'position' THEN 'a late message (late="suspend"): a higher sequence left in an earlier round'
    WHEN sequence IS NULL THEN 'a late message (late="suspend"), which is there no more'
    ELSE 'a late message, sequence ' || sequence || ' (late="suspend"): ' || CASE
        WHEN policy = 'best_effort' THEN 'a higher sequence left in an earlier round'
        WHEN sequence < first THEN 'its number is below the one that began the group'
        ELSE 'its number was skipped before'
    END
END;
