CREATE OR REPLACE VIEW {schema}.seen_message_ids WITH (
    security_barrier
) AS SELECT * FROM {schema}.message_ids WHERE {schema}.is_own_space(id_space);
