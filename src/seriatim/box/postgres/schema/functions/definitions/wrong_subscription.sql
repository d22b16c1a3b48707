-- Return the error in a subscription; NULL: none that SQL can see. The filter is read where it is used.
-- is: sql, stable
CREATE OR REPLACE FUNCTION {schema}.wrong_subscription(
    named text, to_queue text, declared jsonb, its_state text
) RETURNS text
RETURN CASE
    WHEN coalesce(length(named), 0) NOT BETWEEN 1 AND 128 THEN 'its name has 1 to 128 characters'
    WHEN jsonb_typeof(declared) IS DISTINCT FROM 'object' THEN 'its definition is a JSON object'
    WHEN ARRAY(SELECT jsonb_object_keys(declared) ORDER BY 1)
        IS DISTINCT FROM '{correlate,name,starts,state,to,version,where}'::text[]
        THEN 'its definition has correlate, name, starts, state, to, version and where'
    WHEN declared -> 'version' <> '1' THEN 'its definition is of version 1'
    WHEN declared -> 'name' <> to_jsonb(named) THEN 'its definition has another name'
    WHEN declared -> 'to' IS DISTINCT FROM to_jsonb(to_queue) THEN 'its definition leads to another queue'
    WHEN jsonb_typeof(declared -> 'where') <> 'string' OR trim(declared ->> 'where') = '' THEN 'where is a filter: text'
    WHEN length(declared ->> 'where') > 100000 THEN 'its filter has 100,000 characters at most'
    WHEN coalesce(its_state, '') NOT IN ('started', 'stopped', 'enlisted', 'unenlisted')
        OR declared -> 'state' NOT IN ('"started"', '"stopped"', '"enlisted"', '"unenlisted"')
        THEN 'its state is started, stopped, enlisted or unenlisted'
    WHEN jsonb_typeof(declared -> 'starts') NOT IN ('string', 'null') OR length(declared ->> 'starts') > 1000
        THEN 'starts is the name of a function, or null'
    WHEN jsonb_typeof(declared -> 'correlate') <> 'array' THEN 'correlate is a list of names'
    WHEN jsonb_array_length(declared -> 'correlate') > 100 OR EXISTS (
        SELECT FROM jsonb_array_elements(declared -> 'correlate') AS one
        WHERE jsonb_typeof(one) <> 'string' OR length(one #>> '{}') NOT BETWEEN 1 AND 128
    ) THEN 'correlate is a list of names, each of 1 to 128 characters'
    WHEN (jsonb_array_length(declared -> 'correlate') = 0) <> (declared -> 'starts' = 'null')
        THEN 'starts and correlate go together'
END;
