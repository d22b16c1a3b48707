-- Purpose: have PostgreSQL look up each row that the statements of this transaction join, in the order of an index.
SELECT
    set_config('enable_hashjoin', 'off', TRUE), set_config('enable_mergejoin', 'off', TRUE),
    set_config('enable_seqscan', 'off', TRUE), set_config('enable_bitmapscan', 'off', TRUE)
