-- +goose Up

-- The name of the credential with which a repository is read; empty for none. It is inserted into
-- the requests on their way out, and is not in the jail.
ALTER TABLE knowledge_sources ADD COLUMN credential text COLLATE "C" NOT NULL DEFAULT '' CHECK (credential = '' OR kind = 'git');

-- The source that a sync reads now in its jail; empty for none.
ALTER TABLE knowledge_syncs ADD COLUMN source_id text COLLATE "C" NOT NULL DEFAULT '';
CREATE INDEX knowledge_syncs_in_jail ON knowledge_syncs (jail_id) WHERE jail_id <> '';

-- +goose Down
DROP INDEX knowledge_syncs_in_jail;
ALTER TABLE knowledge_syncs DROP COLUMN source_id;
ALTER TABLE knowledge_sources DROP COLUMN credential;
