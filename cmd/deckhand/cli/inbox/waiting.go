package inbox

import (
	"fmt"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Commands returns the commands that decide an item of a kind. It is safe to print:
// the id is escaped.
func Commands(kind, id string) string {
	id = termsafe.Line(id)
	switch kind {
	case "approval":
		return fmt.Sprintf("deckhand inbox approve %s (or reject, skip)", id)
	case "question":
		return fmt.Sprintf("deckhand inbox answer %s TEXT (or reject)", id)
	case "unknown":
		return fmt.Sprintf("deckhand inbox retry %s (or skip; or mark it succeeded or failed)", id)
	case "review":
		return fmt.Sprintf("deckhand inbox accept %s (or changes, reject)", id)
	case "escalation":
		return fmt.Sprintf("deckhand inbox retry %s (or close)", id)
	case "limit":
		return fmt.Sprintf("deckhand inbox raise %s (or close)", id)
	case "budget":
		return fmt.Sprintf("deckhand inbox raise %s (or resume, dismiss)", id)
	case "suspended", "provider":
		return fmt.Sprintf("deckhand inbox resume %s (or dismiss)", id)
	case "egress":
		return fmt.Sprintf("deckhand inbox allow %s (or dismiss)", id)
	case "credential":
		return fmt.Sprintf("deckhand credential rotate NAME; or deckhand inbox dismiss %s", id)
	}
	return "deckhand inbox show " + id
}

// NoteWaiting says below a task that waits for a person why it does, and what to do. The
// hub's reason ends with the command. Several tasks are a table that says why of each, and
// are only counted.
func NoteWaiting(e *env.Env, tasks ...*deckhandv1.Task) {
	if !e.Format.ForPeople() {
		return
	}
	var waiting []*deckhandv1.Task
	for _, t := range tasks {
		switch t.GetState() {
		case deckhandv1.TaskState_TASK_STATE_AWAITING_APPROVAL, deckhandv1.TaskState_TASK_STATE_NEEDS_INPUT, deckhandv1.TaskState_TASK_STATE_REVIEW_NEEDED,
			deckhandv1.TaskState_TASK_STATE_ESCALATED:
			waiting = append(waiting, t)
		}
	}
	switch len(waiting) {
	case 0:
	case 1:
		e.Notef("%s: %s", termsafe.Line(waiting[0].GetId()), termsafe.Line(waiting[0].GetReason()))
	default:
		e.Notef("%d tasks wait for a person: deckhand inbox list", len(waiting))
	}
}
