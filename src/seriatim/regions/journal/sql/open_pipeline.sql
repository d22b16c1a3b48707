-- Note a pipeline that isn't known.
INSERT INTO {schema}.pipelines (name, version, take_overs) VALUES (%(name)s, 0, 0) ON CONFLICT (name) DO NOTHING
