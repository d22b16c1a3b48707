-- Purpose: let no further statement of this transaction take longer than that.
SELECT set_config('statement_timeout', %(milliseconds)s::integer::text, TRUE)
