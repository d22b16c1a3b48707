-- Instances: what subscriptions start, and what leads to them.

CREATE SEQUENCE {schema}.instance_ids;

-- What runs: of a group of a queue one, made by an activation when the first message of the group was worked on. Only
-- a turn, which has the group's lock, and operators under the same lock write here; what has ended is gone. `state`:
-- what a handler keeps of it, as it wrote it; `version`: how often that was written.
CREATE TABLE {schema}.known_instances (
    instance_id bigint PRIMARY KEY,
    queue_id integer NOT NULL,
    group_key text COLLATE "C" NOT NULL,
    subscription_id integer NOT NULL REFERENCES {schema}.known_subscriptions,
    state json NOT NULL CHECK (json_typeof(state) = 'object'),
    version bigint NOT NULL DEFAULT 1,
    started_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (queue_id, group_key)
) WITH (fillfactor = 70);
CREATE INDEX instances_of_subscription ON {schema}.known_instances (subscription_id);

CREATE TRIGGER drop_correlations AFTER DELETE ON {schema}.known_instances
REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION {schema}.drop_correlations();
ALTER TABLE {schema}.known_instances ENABLE ALWAYS TRIGGER drop_correlations;

-- What an instance has added to the key of its group: messages that have one of these values are for it. The key says
-- that they lead a message to one instance of a queue, and is what publishers look into.
CREATE TABLE {schema}.correlations (
    queue_id integer NOT NULL,
    property text COLLATE "C" NOT NULL,
    value text COLLATE "C" NOT NULL,
    instance_id bigint NOT NULL REFERENCES {schema}.known_instances ON DELETE CASCADE,
    PRIMARY KEY (queue_id, property, value)
);
CREATE INDEX correlations_of_instance ON {schema}.correlations (instance_id);
