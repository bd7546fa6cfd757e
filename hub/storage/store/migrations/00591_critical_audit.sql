-- +goose Up
ALTER TABLE audit_entries DROP CONSTRAINT audit_entries_severity_check;
ALTER TABLE audit_entries ADD CONSTRAINT audit_entries_severity_check CHECK (severity IN ('low', 'medium', 'high', 'critical'));

-- +goose Down
ALTER TABLE audit_entries DROP CONSTRAINT audit_entries_severity_check;
ALTER TABLE audit_entries ADD CONSTRAINT audit_entries_severity_check CHECK (severity IN ('low', 'medium', 'high', 'critical'));
