-- +goose Up

-- E2: an approval is also answered with another way, another plan, or a question.
ALTER TABLE inbox_items DROP CONSTRAINT inbox_items_answer_check, ADD CONSTRAINT inbox_items_answer_check CHECK (answer IN (
    '', 'approve', 'reject', 'reply', 'retry', 'skip', 'succeeded', 'failed', 'suggest', 'replan', 'clarify'));

-- +goose Down
ALTER TABLE inbox_items DROP CONSTRAINT inbox_items_answer_check, ADD CONSTRAINT inbox_items_answer_check CHECK (answer IN (
    '', 'approve', 'reject', 'reply', 'retry', 'skip', 'succeeded', 'failed'));
