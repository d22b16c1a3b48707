-- Purpose: store messages of a part in the spool, where nobody sees them without a ticket.
-- Index: spool_pkey.
COPY {schema}.spool (
    arrival_id, position, message_id, type, content_type, context, property_types, body, destinations, parts, serial
) FROM STDIN (FORMAT binary)
