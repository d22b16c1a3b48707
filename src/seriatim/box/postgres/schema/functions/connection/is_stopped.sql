-- Return whether an operator has disabled the box: then nothing is delivered in dialogs, and nothing over links.
-- is: sql, stable
CREATE OR REPLACE FUNCTION {schema}.is_stopped() RETURNS boolean
RETURN EXISTS (SELECT FROM {schema}.box_identity AS known WHERE known.is_only AND known.disabled_by IS NOT NULL);
