-- Purpose: the moment {0} is in the range of a command's filter.
(%(since)s::timestamptz IS NULL OR {0} >= %(since)s::timestamptz)
AND (%(since_ago)s::interval IS NULL OR {0} >= clock_timestamp() - %(since_ago)s::interval)
AND (%(until)s::timestamptz IS NULL OR {0} < %(until)s::timestamptz)
AND (%(until_ago)s::interval IS NULL OR {0} < clock_timestamp() - %(until_ago)s::interval)
