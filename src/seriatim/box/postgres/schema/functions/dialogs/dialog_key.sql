-- Return the key of the stream of a dialog's direction.
-- is: sql, immutable
CREATE OR REPLACE FUNCTION {schema}.dialog_key(of_conversation uuid, of_initiator boolean) RETURNS text
RETURN of_conversation::text || CASE WHEN of_initiator THEN ':i' ELSE ':t' END;
