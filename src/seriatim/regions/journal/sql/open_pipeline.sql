-- Note a pipeline that isn't known.
-- Caller: pipelines.py. Index: the key.
INSERT INTO {schema}.pipelines (name, version, take_overs) VALUES (%(name)s, 0, 0) ON CONFLICT (name) DO NOTHING
