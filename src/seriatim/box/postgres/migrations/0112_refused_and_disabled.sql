-- What the other box said last that isn't taken here.
ALTER TABLE {schema}.known_links ADD COLUMN refused text, ADD COLUMN refused_at timestamptz;

-- An operator has disabled the box: it delivers nothing in dialogs, and nothing over links.
ALTER TABLE {schema}.box_identity
ADD COLUMN disabled_by text, ADD COLUMN disabled_why text, ADD COLUMN disabled_at timestamptz,
ADD CONSTRAINT box_identity_disabled_check CHECK (num_nulls(disabled_by, disabled_why, disabled_at) IN (0, 3));
