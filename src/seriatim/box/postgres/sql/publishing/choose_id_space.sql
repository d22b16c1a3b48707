-- Purpose: let ids that are published in this transaction be unique in a part of the role's id space.
-- Index: none.
SELECT set_config('seriatim.id_space', %(part)s, TRUE) AS part
