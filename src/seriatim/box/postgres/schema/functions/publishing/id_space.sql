-- Return the id space of the caller.
-- is: sql, stable
CREATE OR REPLACE FUNCTION {schema}.id_space() RETURNS text
RETURN CASE WHEN {schema}.is_owner() THEN '' ELSE {schema}.space_of_role({schema}.caller()) END;
