-- Return the chain before the first message of a dialog's direction.
-- is: sql, immutable
CREATE OR REPLACE FUNCTION {schema}.first_dialog_chain(of_conversation uuid, of_initiator boolean) RETURNS bytea
RETURN sha256('seriatim dialog'::bytea || uuid_send(of_conversation) || CASE WHEN of_initiator THEN '\x01' ELSE '\x00' END::bytea);
