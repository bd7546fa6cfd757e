package notification

import (
	"context"
	"fmt"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/shortlist"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// AgentMessage is the type of what agents send with send_notification. No destination
// chooses it: it goes to those that the agent names.
const AgentMessage = "agent.message"

// maxNames is how many destinations an error names.
const maxNames = 10

// defaultPerHour is how many calls of agents a destination takes in an hour.
const defaultPerHour = 20

// Outbound sends what agents write, to people and to destinations that are open to them.
type Outbound struct{ *Service }

// Sender is the agent that sends something, and the run of the step by which it does.
type Sender struct {
	OrgID, AgentID, AgentName string
	Task                      db.Task
	StepID, ExecID            string
}

// Message is a text for people.
type Message struct {
	Title, Text string
	// People are names of users, and Destinations those of destinations.
	People, Destinations []string
}

// checkAccess returns what is wrong with what agents may send.
func checkAccess(spec *deckhandv1.DestinationSpec) error {
	a := spec.GetForAgents()
	if a == nil {
		return nil
	}
	if len(a.GetRecipients()) > 0 && spec.GetEmail() == nil {
		return fault.New(fault.Invalid, "spec.for_agents.recipients is for email only").WithFix("leave it out")
	}
	for _, one := range a.GetRecipients() {
		address := one
		if strings.HasPrefix(one, "@") {
			address = "x" + one
		}
		if parsed, err := mail.ParseAddress(address); err != nil || parsed.Address != address {
			return fault.New(fault.Invalid, "spec.for_agents.recipients has %q, which is neither an address nor a domain", oneLine(one, maxSummary)).
				WithFix("give addresses such as ops@example.com, and domains such as @example.com")
		}
	}
	return nil
}

// open reports whether an agent may use a destination.
func open(spec *deckhandv1.DestinationSpec, agent string) bool {
	agents := spec.GetForAgents().GetAgents()
	return slices.Contains(agents, agent) || slices.Contains(agents, "*")
}

// outlet is a destination that an agent may use.
type outlet struct {
	row  db.Destination
	spec *deckhandv1.DestinationSpec
}

// outlet returns the destination with a name that an agent may use; without a name, the only
// one. kind is empty for any.
func (s Outbound) outlet(ctx context.Context, q *db.Queries, from Sender, name, kind string) (outlet, error) {
	rows, err := q.DestinationsOf(ctx, from.OrgID)
	if err != nil {
		return outlet{}, fmt.Errorf("list the destinations of %s: %w", from.OrgID, err)
	}
	var usable []outlet
	for _, row := range rows {
		if row.UserID != nil || kind != "" && row.Kind != kind {
			continue
		}
		spec, err := Spec(row)
		if err != nil {
			return outlet{}, err
		}
		if !open(spec, from.AgentName) {
			continue
		}
		if row.Name == name {
			return outlet{row, spec}, nil
		}
		usable = append(usable, outlet{row, spec})
	}
	if name == "" && len(usable) == 1 {
		return usable[0], nil
	}
	names := make([]string, len(usable))
	for i, one := range usable {
		names[i] = one.row.Name
	}
	what := "destination"
	if kind != "" {
		what = kind + " destination"
	}
	e := fault.New(fault.Invalid, "there is no %s %.100q that you may use", what, name).WithCode(fault.InvalidParameters)
	if len(usable) == 0 {
		return outlet{}, e.WithFix("an administrator allows it: deckhand destination update NAME --for-agent %s", from.AgentName)
	}
	if name == "" {
		e = fault.New(fault.Invalid, "there are several accounts that you may send mail from").WithCode(fault.InvalidParameters)
		return outlet{}, e.WithFix("name one in account, such as %s or %s", names[0], names[1])
	}
	return outlet{}, e.WithFix("use one of: %s", shortlist.Of(names, maxNames, len(names)))
}

// room locks a destination, and returns an error if agents have made as many calls to it in
// the last hour as they may.
func (s Outbound) room(ctx context.Context, q *db.Queries, from Sender, row db.Destination, most int32) error {
	if _, err := q.LockDestination(ctx, db.LockDestinationParams{OrgID: from.OrgID, ID: row.ID}); err != nil {
		return fmt.Errorf("lock destination %s: %w", row.ID, err)
	}
	made, err := q.CountOutboundCalls(ctx, db.CountOutboundCallsParams{OrgID: from.OrgID, DestinationID: row.ID})
	if err != nil {
		return fmt.Errorf("count the calls to destination %s: %w", row.ID, err)
	}
	if most == 0 {
		most = defaultPerHour
	}
	if made < int64(most) {
		return nil
	}
	name := "destination " + row.Name
	if row.UserID != nil {
		name = "a person's device"
	}
	return fault.New(fault.Exhausted, "%s takes %d calls of agents in an hour, and had them", name, most).
		WithCode(fault.RateLimited).WithFix("put what you have to say into one message, or go on without it")
}

// claim stores that a run of a step is sent. first is false for one that was claimed before.
func claim(ctx context.Context, q *db.Queries, from Sender, destinationID, state string) (first bool, err error) {
	n, err := q.ClaimOutboundCall(ctx, db.ClaimOutboundCallParams{
		OrgID: from.OrgID, ExecID: from.ExecID, DestinationID: destinationID, StepID: from.StepID, State: state,
	})
	if err != nil {
		return false, fmt.Errorf("store a call to destination %s: %w", destinationID, err)
	}
	return n > 0, nil
}

// Send stores a message to people and destinations, which are sent it if the transaction
// commits. It returns who gets it, and which people have no device that takes
// notifications. Nobody is sent it if one name is wrong or a limit is reached.
func (s Outbound) Send(ctx context.Context, tx *event.Tx, from Sender, m Message) (reached, missed []string, err error) {
	details := map[string]any{"title": m.Title, "message": m.Text, "step_id": from.StepID}
	e := s.event(from, AgentMessage, details)
	e.Data.Summary = oneLine("Agent "+from.AgentName+": "+m.Title, maxSummary)
	var out owed
	add := func(row db.Destination, most int32, e CloudEvent) error {
		if err := s.room(ctx, tx.Queries, from, row, most); err != nil {
			return err
		}
		return out.add(row.ID, e)
	}
	for _, name := range m.Destinations {
		to, err := s.outlet(ctx, tx.Queries, from, name, "")
		if err != nil {
			return nil, nil, err
		}
		if err := add(to.row, to.spec.GetForAgents().GetCallsPerHour(), e); err != nil {
			return nil, nil, err
		}
		reached = append(reached, name)
	}
	for _, name := range m.People {
		devices, err := tx.UserDevices(ctx, db.UserDevicesParams{OrgID: from.OrgID, Name: name})
		if err != nil {
			return nil, nil, fmt.Errorf("list the devices of %s: %w", name, err)
		}
		if len(devices) == 0 {
			return nil, nil, fault.New(fault.Invalid, "there is no user %.100q", name).WithCode(fault.InvalidParameters).
				WithFix("give the name of a user of the organisation, such as that of the one who submitted the task: %s", from.Task.CreatedBy)
		}
		if devices[0].DestinationID == "" {
			missed = append(missed, name)
			continue
		}
		theirs := e
		if !devices[0].Admin && name != from.Task.CreatedBy {
			// They may not see the task.
			theirs.Data.Task, theirs.Subject, theirs.CorrelationID, theirs.Data.CorrelationID = nil, from.StepID, "", ""
		}
		for _, d := range devices {
			row, err := tx.GetDestination(ctx, db.GetDestinationParams{OrgID: from.OrgID, ID: d.DestinationID})
			if store.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, nil, fmt.Errorf("load a device of %s: %w", name, err)
			}
			if err := add(row, 0, theirs); err != nil {
				return nil, nil, err
			}
		}
		reached = append(reached, name)
	}
	for _, id := range out.Destinations {
		if _, err := claim(ctx, tx.Queries, from, id, outboundSent); err != nil {
			return nil, nil, err
		}
	}
	s.owe(tx, from.OrgID, out)
	return reached, missed, nil
}

// event returns what an agent sends as an event.
func (s Outbound) event(from Sender, kind string, details map[string]any) CloudEvent {
	return CloudEvent{
		SpecVersion: "1.0", ID: from.StepID, Source: source(from.OrgID), Type: kind, Subject: from.Task.ID, Time: time.Now().UTC(),
		DataContentType: "application/json", CorrelationID: from.Task.CorrelationID,
		Data: Data{
			Actor: actor("agent", from.AgentID), Agent: &Named{ID: from.AgentID, Name: from.AgentName},
			Task: &Named{ID: from.Task.ID, Name: from.Task.Title}, CorrelationID: from.Task.CorrelationID, Details: details,
		},
	}
}

// message returns the text that an agent sends; empty for other events.
func (e CloudEvent) message() string {
	if e.Type != AgentMessage {
		return ""
	}
	text, _ := e.Data.Details["message"].(string)
	return text
}

// pushText returns the message of an agent for a device. It is encrypted for the device, and
// the agent wrote it for its user.
func pushText(e CloudEvent) pushMessage {
	title, _ := e.Data.Details["title"].(string)
	m := pushMessage{Title: oneLine(e.Data.Agent.Name+": "+title, maxPushText), Body: oneLine(e.message(), maxPushText), Tag: e.ID, Path: "inbox"}
	if e.Data.Task != nil {
		m.Path = "tasks/" + url.PathEscape(e.Data.Task.ID)
	}
	return m
}
