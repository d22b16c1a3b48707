CREATE OR REPLACE VIEW {schema}.seen_message_ids WITH (
    security_barrier
) AS SELECT * FROM {schema}.message_ids WHERE FALSE;
