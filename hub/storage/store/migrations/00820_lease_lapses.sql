-- +goose Up

-- How often in a row a task's lease ended, without progress between, although its worker lived.
ALTER TABLE tasks ADD COLUMN lease_lapses int NOT NULL DEFAULT 0;
