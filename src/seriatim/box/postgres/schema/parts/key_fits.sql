-- Whether a key is behind the last one, within the bounds, and fits the pattern.
{0} > later AND {0} >= lowest AND {0} < below AND (pattern IS NULL OR {0} LIKE pattern)
