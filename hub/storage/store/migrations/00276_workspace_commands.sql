-- +goose Up
-- Commands that run once in a workspace before its agent begins: a checkout of a repository,
-- and those of a devcontainer.json.
ALTER TABLE devcontainer_commands RENAME TO workspace_commands;

-- +goose Down
ALTER TABLE workspace_commands RENAME TO devcontainer_commands;
