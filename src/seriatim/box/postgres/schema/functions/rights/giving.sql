-- Return the rights that include a right: itself, or a wider one. `judge` and `read` aren't granted: receivers judge
-- groups and read messages as well. `any`: whatever right it is.
-- is: sql, immutable, parallel safe
CREATE OR REPLACE FUNCTION {schema}.giving(what text) RETURNS text[]
RETURN CASE what
    WHEN 'see' THEN ARRAY['see', 'see_bodies', 'operate']
    WHEN 'any' THEN ARRAY['publish', 'receive', 'subscribe', 'see', 'see_bodies', 'operate']
    WHEN 'judge' THEN ARRAY['receive', 'operate']
    WHEN 'read' THEN ARRAY['receive', 'see_bodies']
    ELSE ARRAY[what]
END;
