-- A partition of a port through which messages come in, such as a partition of a Kafka topic. The process that holds it
-- reads it; everything that it publishes of it commits with a change of this row, by its token. `position`: from where the
-- source goes on, where the box keeps that. The counts are those of all times: messages that came in, that had come
-- before, those of them that came in under an id that had another body, and those that the box refused in their own form.
CREATE TABLE {schema}.ports (
    port text COLLATE "C" NOT NULL CHECK (length(port) BETWEEN 1 AND 128),
    partition text COLLATE "C" NOT NULL CHECK (length(partition) <= 1024),
    kind text NOT NULL,
    token bigint NOT NULL DEFAULT 1,
    holder text NOT NULL CHECK (length(holder) <= 1024),
    held_since timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    position jsonb,
    taken bigint NOT NULL DEFAULT 0,
    left_out bigint NOT NULL DEFAULT 0,
    id_reused bigint NOT NULL DEFAULT 0,
    refused bigint NOT NULL DEFAULT 0,
    last_taken_at timestamptz,
    -- Why it stands still; NULL: it doesn't.
    problem text CHECK (length(problem) <= 2000),
    PRIMARY KEY (port, partition)
) WITH (fillfactor = 50);
