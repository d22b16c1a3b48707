-- Purpose: note who has disabled the box, and why; NULL: it is enabled.
-- Locks: the only row.
-- Index: box_identity_pkey.
UPDATE {schema}.box_identity SET
    disabled_by = %(actor)s, disabled_why = %(reason)s, disabled_at = CASE WHEN %(actor)s::text IS NOT NULL THEN now() END
