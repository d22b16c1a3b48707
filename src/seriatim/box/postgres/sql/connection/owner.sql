-- Purpose: the caller, the owner of the box, and whether the caller is a member of the owner.
-- Index: the catalog's own.
SELECT current_user AS role, nspowner::regrole::text AS owner, pg_has_role(current_user, nspowner, 'USAGE') AS is_owner
FROM pg_namespace WHERE nspname = %(schema)s
