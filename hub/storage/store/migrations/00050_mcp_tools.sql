-- +goose Up

-- The tools that MCP servers offer to agents: as somebody agreed to them, and as
-- the server offers them now where that is something else.
CREATE TABLE mcp_tools (
    org_id         text COLLATE "C" NOT NULL REFERENCES organisations (id),
    agent_id       text COLLATE "C" NOT NULL REFERENCES agents (id),
    -- As the model calls it.
    name           text NOT NULL,
    server         text NOT NULL,
    -- As the server calls it.
    tool           text NOT NULL,
    -- A definition is deckhand's own JSON of it; the digest tells it from another.
    -- Null for a tool that came later than the server's first, and that nobody has
    -- agreed to yet.
    agreed         text,
    agreed_digest  text,
    -- Empty for those that came first: who named the server agreed to them.
    agreed_by      text NOT NULL DEFAULT '',
    agreed_at      timestamptz,
    offered        text,
    offered_digest text,
    offered_at     timestamptz,
    -- The server does not offer it any more.
    gone           boolean NOT NULL DEFAULT false,
    PRIMARY KEY (agent_id, name),
    CHECK ((agreed IS NULL) = (agreed_digest IS NULL) AND (agreed IS NULL) = (agreed_at IS NULL)),
    CHECK ((offered IS NULL) = (offered_digest IS NULL) AND (offered IS NULL) = (offered_at IS NULL)),
    CHECK (agreed IS NOT NULL OR offered IS NOT NULL)
);

-- +goose Down
DROP TABLE mcp_tools;
