-- Tokens by which callers over HTTP are known: each runs its transactions as a role, and may publish to and receive from
-- the named queues only. The token itself isn't kept.
CREATE TABLE {schema}.tokens (
    name text COLLATE "C" PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 128),
    hash bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    role regrole NOT NULL,
    publish integer[] NOT NULL,
    receive integer[] NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    created_by text NOT NULL DEFAULT session_user,
    expires_at timestamptz,
    server regrole NOT NULL
);
