-- Pipelines that run once in each region, of which one delivers at a time: who has the lease. `claim`: the holder's random id.
CREATE TABLE {schema}.pipelines (
    name text PRIMARY KEY,
    version bigint NOT NULL,
    claim text,
    region text,
    holder text,
    lease_until bigint,
    held_since bigint,
    take_overs bigint NOT NULL
);

-- What they have delivered: of a group of a destination all numbers up to `through`.
CREATE TABLE {schema}.delivered (
    pipeline text NOT NULL,
    destination text NOT NULL,
    group_key text NOT NULL,
    through bigint NOT NULL,
    delivered_at bigint NOT NULL,
    PRIMARY KEY (pipeline, destination, group_key)
);
