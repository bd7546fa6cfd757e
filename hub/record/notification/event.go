package notification

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/literal"
	"github.com/deckhand-sh/deckhand/internal/textcut"
)

// CloudEvent is the message that is sent, in the JSON of CloudEvents 1.0 (structured
// mode, github.com/cloudevents/spec, json-format.md).
type CloudEvent struct {
	SpecVersion string `json:"specversion"`
	// ID is the same for every attempt and every destination.
	ID     string `json:"id"`
	Source string `json:"source"`
	Type   string `json:"type"`
	// Subject is the task, or whatever else it is about.
	Subject         string    `json:"subject,omitempty"`
	Time            time.Time `json:"time"`
	DataContentType string    `json:"datacontenttype"`
	// CorrelationID is an extension: all events of one task have the same.
	CorrelationID string `json:"correlationid,omitempty"`
	Data          Data   `json:"data"`
}

// Data is the content of an event.
type Data struct {
	// Summary is one line for people. It quotes what agents and strangers wrote.
	Summary string `json:"summary"`
	Actor   Actor  `json:"actor"`
	Task    *Named `json:"task,omitempty"`
	Agent   *Named `json:"agent,omitempty"`
	Attempt int32  `json:"attempt,omitempty"`
	// Seq is the event's number in its task's history, from 1 without gaps.
	Seq           int64  `json:"seq,omitempty"`
	CorrelationID string `json:"correlation_id,omitempty"`
	// Tokens and CostMicros (millionths of a US dollar) are those of the turn or the run
	// if the event is about one, and the task's otherwise.
	Tokens      *int64 `json:"tokens,omitempty"`
	CostMicros  *int64 `json:"cost_micros,omitempty"`
	Recoverable *bool  `json:"recoverable,omitempty"`
	RetryCount  *int32 `json:"retry_count,omitempty"`
	// Details is the event's payload; see docs/events.md.
	Details map[string]any `json:"details,omitempty"`
	// Truncated reports that the payload was too large to be sent.
	Truncated bool `json:"truncated,omitempty"`
}

// Actor is who made it happen: the component, and which one. Class is human, agent or
// system.
type Actor struct {
	Kind  string `json:"kind"`
	ID    string `json:"id"`
	Class string `json:"class"`
}

func actor(kind, id string) Actor {
	return Actor{Kind: kind, ID: id, Class: eventkind.ActorClass(kind)}
}

// Named is an object with what people call it.
type Named struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
}

// maxBody bounds an event: NATS takes a megabyte.
const maxBody = 512 << 10

func source(orgID string) string { return "/organisations/" + orgID }

// tell returns the message for an event of a task under a type.
func tell(orgID, kind string, row db.EventsToTellRow, payload map[string]any) CloudEvent {
	e := CloudEvent{
		SpecVersion: "1.0", ID: fmt.Sprintf("%s.%d", row.TaskID, row.Seq), Source: source(orgID), Type: kind, Subject: row.TaskID,
		Time: row.Time.UTC(), DataContentType: "application/json", CorrelationID: row.CorrelationID,
		Data: Data{
			Actor: actor(row.ActorKind, row.ActorID), Task: &Named{ID: row.TaskID, Name: row.Title},
			Attempt: row.Attempt, Seq: row.Seq, CorrelationID: row.CorrelationID, Details: payload,
		},
	}
	if kind != row.Type {
		e.ID += "." + kind
	}
	if row.AgentID != "" {
		e.Data.Agent = &Named{ID: row.AgentID, Name: row.AgentName}
	}
	if usage, ok := payload["usage"].(map[string]any); ok {
		e.Data.Tokens, e.Data.CostMicros = new(number(usage["input_tokens"])+number(usage["output_tokens"])), new(number(usage["cost_micros"]))
	} else if kind == stateChanged || row.Type != kind {
		e.Data.Tokens, e.Data.CostMicros = &row.Tokens, &row.CostMicros
	}
	if recoverable, ok := payload["recoverable"].(bool); ok {
		e.Data.Recoverable = &recoverable
	}
	switch row.Type {
	case executionFailed, executionPaused, taskEscalated, agentRetry:
		e.Data.RetryCount = &row.Failures
	}
	e.Data.Summary = summary(kind, row.AgentName, row.TaskID, payload)
	return e
}

func number(v any) int64 {
	f, _ := v.(float64)
	return int64(f)
}

// encode returns an event as JSON, without its details where those are too
// large.
func (e CloudEvent) encode() ([]byte, error) {
	data, err := json.Marshal(e)
	if err == nil && len(data) > maxBody {
		e.Data.Details, e.Data.Truncated = nil, true
		data, err = json.Marshal(e)
	}
	if err != nil {
		return nil, fmt.Errorf("encode event %s: %w", e.ID, err)
	}
	return data, nil
}

// maxSummary is in characters.
const maxSummary = 500

// summary returns one line about an event.
func summary(kind, agent, taskID string, p map[string]any) string {
	text := func(field string) string {
		s, _ := p[field].(string)
		return s
	}
	who := "Agent " + agent
	if agent == "" {
		who = "Task " + taskID
	}
	var line string
	switch kind {
	case approvalRequested:
		line = fmt.Sprintf("%s asks to run %s: %s", who, text("tool"), text("why"))
		if preview := text("preview"); preview != "" {
			line += ". It would do this: " + literal.Line(preview)
		}
	case outcomeUnknown:
		line = fmt.Sprintf("%s does not know whether %s took effect, and asks", who, text("tool"))
	case inputRequired:
		line = fmt.Sprintf("%s asks: %s", who, text("question"))
	case reviewRequested, reviewOpened:
		line = fmt.Sprintf("%s is done with task %s, which waits for a review: deckhand inbox show %s", who, taskID, text("item_id"))
	case reviewCompleted:
		line = fmt.Sprintf("Task %s was reviewed: it is %s", taskID, text("to"))
	case taskFailed, taskCompleted, agentPaused, stateChanged:
		line = fmt.Sprintf("Task %s of agent %s is %s: %s", taskID, agent, text("to"), text("reason"))
	case "agent.escalated", taskEscalated:
		line = fmt.Sprintf("%s needs a person for task %s: %s. Retry or close it: deckhand inbox show %s", who, taskID, text("cause"), text("item_id"))
	case agentSuspended:
		line = fmt.Sprintf("%s is suspended: %s. %s", who, text("reason"), text("fix"))
	case budgetWarning:
		line = fmt.Sprintf("The budget of %s %s is at $%.2f of $%.2f", text("scope"), text("object_id"), usd(p["spent_micros"]), usd(p["limit_micros"]))
	case workStopped:
		line = fmt.Sprintf("%s. %s: deckhand inbox show %s", text("title"), text("why"), text("item_id"))
	case limitReached:
		line = fmt.Sprintf("%s has reached its limit of %s in task %s", who, text("kind"), taskID)
	case executionFailed, "agent.failed", executionPaused, agentRetry:
		line = fmt.Sprintf("%s in task %s: %s %s", who, taskID, text("error_code"), text("message"))
	case executionCompleted, "agent.completed":
		line = fmt.Sprintf("%s has done task %s: %s", who, taskID, text("summary"))
	case toolSelected, toolDenied, toolExecuting, toolCompleted, "agent.tool.called", "audit.agent.action":
		line = fmt.Sprintf("%s in task %s: %s %s", who, taskID, text("tool"), text("state"))
	case triggerTripped:
		line = fmt.Sprintf("Trigger %s stopped itself: %s", text("trigger"), text("reason"))
	case auditHigh:
		line = fmt.Sprintf("%s did %s to %s %s, from %s", text("actor"), text("action"), text("object_kind"), text("object_id"), text("address"))
	case deliveryFailed:
		line = fmt.Sprintf("A delivery of trigger %s started nothing: %s", text("trigger"), text("reason"))
	default:
		line = fmt.Sprintf("%s in task %s: %s", who, taskID, kind)
	}
	return oneLine(line, maxSummary)
}

func usd(v any) float64 { return float64(number(v)) / 1e6 }

// oneLine returns a text as one line of at most so many characters, without the
// characters that control terminals and headers.
func oneLine(text string, most int) string {
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\uFFFD"), func(r rune) bool {
		return r == ' ' || !unicode.IsPrint(r)
	}), " ")
	return textcut.Runes(text, most, "…")
}
