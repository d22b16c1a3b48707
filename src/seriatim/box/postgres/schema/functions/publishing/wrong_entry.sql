-- Return the error in an entry for a queue of that policy; NULL: none.
-- is: sql, immutable
CREATE OR REPLACE FUNCTION {schema}.wrong_entry(
    policy text, of_group text, of_sequence bigint, of_priority bigint, problem text
)
RETURNS text
RETURN CASE
    WHEN octet_length(of_group) > {MAX_KEY_BYTES} THEN 'the key of a group has 1,024 bytes at most'
    WHEN (of_priority BETWEEN 1 AND 10) IS NOT TRUE THEN 'a priority is from 1 to 10'
    WHEN problem = '' OR length(problem) > 2000 THEN 'what is wrong with it has 1 to 2000 characters'
    WHEN problem IS NOT NULL THEN NULL
    WHEN policy = 'unordered'
        THEN CASE WHEN of_group IS DISTINCT FROM '' THEN 'messages of this queue have no group' END
    WHEN of_group IS NULL THEN 'messages of this queue have a group'
    WHEN policy <> 'fifo' AND of_sequence IS NULL THEN 'messages of this queue have a sequence'
END;
