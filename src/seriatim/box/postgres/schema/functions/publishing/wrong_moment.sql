-- Return the error in the moment from which messages are handed out; NULL: none.
-- is: sql, stable
CREATE OR REPLACE FUNCTION {schema}.wrong_moment(seen_from timestamptz) RETURNS text
RETURN CASE WHEN NOT isfinite(seen_from) OR seen_from > now() + interval '10001 days' THEN
    'a message can be hidden for 10,000 days at most' END;
