-- Return whether the caller may route messages published through SQL.
-- is: sql, stable
CREATE OR REPLACE FUNCTION {schema}.may_route() RETURNS boolean
RETURN {schema}.is_owner() OR cardinality({schema}.permitted('route')) > 0;
