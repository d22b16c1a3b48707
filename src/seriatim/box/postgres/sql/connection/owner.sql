-- Purpose: who is it, who owns the box, and is that one of his roles?
-- Index: the catalog's own.
SELECT current_user AS role, nspowner::regrole::text AS owner, pg_has_role(current_user, nspowner, 'USAGE') AS is_owner
FROM pg_namespace WHERE nspname = %(schema)s
