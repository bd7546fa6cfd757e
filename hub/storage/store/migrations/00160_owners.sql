-- +goose Up

-- Whose an agent is: who first applied it. A version knows what its maker might
-- do, since no run of it may do more.
ALTER TABLE agents ADD COLUMN owner text NOT NULL DEFAULT '';
ALTER TABLE agent_versions ADD COLUMN created_by_role text NOT NULL DEFAULT 'viewer';
UPDATE agents a SET owner = v.created_by FROM agent_versions v WHERE v.agent_id = a.id AND v.version = 1;

-- +goose Down
ALTER TABLE agent_versions DROP COLUMN created_by_role;
ALTER TABLE agents DROP COLUMN owner;
