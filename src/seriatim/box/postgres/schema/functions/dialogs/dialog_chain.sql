-- Return the chain after a message of a dialog's direction; see `docs/reference/link-protocol.md`. The first one: before
-- any message, with the id of the conversation and the side.
-- is: sql, immutable
CREATE OR REPLACE FUNCTION {schema}.dialog_chain(chain bytea, its_type text, body bytea) RETURNS bytea
RETURN sha256(
    chain || sha256(int4send(octet_length(convert_to(its_type, 'UTF8'))) || convert_to(its_type, 'UTF8') || body)
);
