-- The body of a message that is handed out; NULL: the transaction leaves bodies of its size where they are.
CASE WHEN octet_length(stored.body) > nullif(current_setting('seriatim.largest_body', TRUE), '')::integer THEN NULL
    ELSE stored.body END
