-- Purpose: limit the time of all further statements of this transaction.
SELECT set_config('statement_timeout', %(milliseconds)s::integer::text, TRUE)
