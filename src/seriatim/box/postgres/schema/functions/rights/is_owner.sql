-- Return whether the caller is the owner of the box, or a member of it. For functions that run as the owner.
-- is: sql, stable
CREATE OR REPLACE FUNCTION {schema}.is_owner() RETURNS boolean
RETURN pg_has_role({schema}.caller(), current_user, 'USAGE');
