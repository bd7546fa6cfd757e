package task

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/textcut"
)

// A chat consists of tasks whose agent replies without using tools. Each reply is a task,
// and those of one conversation share their lineage.

// maxSaid and maxSaidText bound the conversation that a chat takes along, in
// messages and in characters of each: as SubmitTask does.
const (
	maxSaid     = 100
	maxSaidText = 32768
)

// checkChat refuses a chat that could not be one.
func checkChat(sub Submission) error {
	switch {
	case !sub.Override.Chat:
		return nil
	case sub.AgentID == "":
		return fault.New(fault.Invalid, "chat needs an agent, which answers").WithFix("name it as agent_id")
	case len(sub.Inputs) > 0:
		return fault.New(fault.Invalid, "a chat takes no inputs: its agent could not read them").
			WithFix("say what they hold, or submit a task")
	case sub.Goal == "":
		return fault.New(fault.Invalid, "goal is empty").WithFix("say what the agent is to answer")
	}
	return nil
}

// Reply continues a chat after the reply of another task, given by its id.
func (s *Service) Reply(ctx context.Context, sub Submission, to string) (Submission, error) {
	row, err := s.Get(ctx, sub.OrgID, to)
	if err != nil {
		return sub, err
	}
	before, err := OverrideOf(row.Task)
	if err != nil {
		return sub, fmt.Errorf("task %s: %w", to, err)
	}
	switch {
	case !before.Chat:
		return sub, fault.New(fault.Precondition, "task %s is no chat", to).WithFix("tell its agent: deckhand task message %s TEXT", to).WithObject(to)
	case row.Task.AgentID != sub.AgentID:
		return sub, fault.New(fault.Invalid, "task %s is a chat with agent %s", to, row.AgentName).WithFix("give that as agent_id").WithObject(to)
	case !State(row.Task.State).Final():
		return sub, fault.New(fault.Precondition, "task %s has not been answered yet", to).WithFix("wait for its end, or cancel it").WithObject(to)
	case len(sub.Conversation) > 0:
		return sub, fault.New(fault.Invalid, "conversation and reply_to are both given").WithFix("give one of them")
	}
	if err := json.Unmarshal(row.Task.Conversation, &sub.Conversation); err != nil {
		return sub, fmt.Errorf("read the conversation of task %s: %w", to, err)
	}
	said := []Message{{Role: "user", Text: row.Task.Goal}}
	if answer := strings.TrimSpace(row.Task.Summary); answer != "" {
		said = append(said, Message{Role: "assistant", Text: answer})
	}
	for _, m := range said {
		m.Text = textcut.Runes(m.Text, maxSaidText, "")
		sub.Conversation = append(sub.Conversation, m)
	}
	sub.Conversation = sub.Conversation[max(0, len(sub.Conversation)-maxSaid):]
	sub.Origin = &row.Task
	return sub, nil
}

// apart gives a task its own workspace, so that it waits for no other task.
func (r *runs) apart(taskID string) {
	r.scope, r.jail = string(persona.ScopeTask), "jail_"+strings.TrimPrefix(taskID, "task_")
}
