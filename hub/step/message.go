package step

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/record/notification"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/redact"
)

// Outbound sends to people and destinations; notification.Outbound does.
type Outbound interface {
	Send(ctx context.Context, tx *event.Tx, from notification.Sender, m notification.Message) (reached, missed []string, err error)
	Trigger(ctx context.Context, from notification.Sender, name, kind string, data map[string]any) (notification.Sent, error)
	CheckMail(ctx context.Context, from notification.Sender, m notification.Mail) (account, address string, err error)
	SendMail(ctx context.Context, from notification.Sender, m notification.Mail) (notification.Sent, error)
	Earlier(ctx context.Context, from notification.Sender) (_ notification.Sent, found bool, err error)
}

// messenger sends what one call sends. It implements tool.Messenger.
type messenger struct {
	steps *Steps
	from  notification.Sender
	// tx is the transaction that the outcome is stored in; nil for calls that store nothing.
	tx *event.Tx
}

// messengerOf returns the messenger of a task's calls. stepID and execID are of the call.
func messengerOf(ctx context.Context, s *Steps, t db.Task, stepID, execID string, tx *event.Tx) (*messenger, error) {
	q := s.cfg.Store.Queries
	if tx != nil {
		q = tx.Queries
	}
	name, err := s.cfg.Agents.NameOf(ctx, q, t.OrgID, t.AgentID)
	if err != nil {
		return nil, err
	}
	return &messenger{s, notification.Sender{OrgID: t.OrgID, AgentID: t.AgentID, AgentName: name, Task: t, StepID: stepID, ExecID: execID}, tx}, nil
}

// clean refuses text with a secret that the hub knows.
func (m *messenger) clean(field, text string) error {
	if m.steps.cfg.Redact.Org(m.from.OrgID).String(text) == text {
		return nil
	}
	return secretRefused(field)
}

func secretRefused(field string) *fault.Error {
	return fault.New(fault.Denied, "%.300s contains a secret", field).WithCode(fault.PermissionDenied).WithFix("leave it out: secrets are not sent to anybody")
}

// hasSecret reports whether the content of a file, which need not be text, contains a secret.
func hasSecret(mask *redact.Redactor, data []byte) bool {
	masked := bytes.Clone(data)
	mask.Mask(masked)
	return !bytes.Equal(masked, data)
}

// Notify stores a note with the outcome of its call.
func (m *messenger) Notify(ctx context.Context, n tool.Note) (reached, missed []string, err error) {
	if err := m.clean("the message", n.Title+"\n"+n.Text); err != nil {
		return nil, nil, err
	}
	if m.tx == nil {
		return nil, nil, fault.New(fault.Internal, "step %s stores a message without a transaction", m.from.StepID)
	}
	return m.steps.cfg.Outbound.Send(ctx, m.tx, m.from, notification.Message(n))
}

// Trigger calls a webhook.
func (m *messenger) Trigger(ctx context.Context, destination, kind string, data map[string]any) (tool.Delivery, error) {
	encoded, err := json.Marshal(data)
	if err != nil {
		return tool.Delivery{}, fmt.Errorf("encode the data of step %s: %w", m.from.StepID, err)
	}
	for _, part := range []struct{ field, text string }{{"event", kind}, {"data", string(encoded)}} {
		if err := m.clean(part.field, part.text); err != nil {
			return tool.Delivery{}, err
		}
	}
	sent, err := m.steps.cfg.Outbound.Trigger(ctx, m.from, destination, kind, data)
	return tool.Delivery(sent), err
}

func (m *messenger) mail(l tool.Letter) (notification.Mail, error) {
	out := notification.Mail{Account: l.Account, To: l.To, Subject: l.Subject, Text: l.Text}
	if err := m.clean("the mail", l.Subject+"\n"+l.Text); err != nil {
		return out, err
	}
	for _, address := range l.To {
		if err := m.clean("to", address); err != nil {
			return out, err
		}
	}
	for _, f := range l.Files {
		if err := m.clean("the name of an attachment", path.Base(f.Path)); err != nil {
			return out, err
		}
		if hasSecret(m.steps.cfg.Redact.Org(m.from.OrgID), f.Data) {
			return out, secretRefused("attachment " + f.Path)
		}
		out.Attachments = append(out.Attachments, notification.Attachment{Name: path.Base(f.Path), Data: f.Data})
	}
	return out, nil
}

// Check returns what a mail would be sent from.
func (m *messenger) Check(ctx context.Context, l tool.Letter) (account, address string, err error) {
	mail, err := m.mail(l)
	if err != nil {
		return "", "", err
	}
	return m.steps.cfg.Outbound.CheckMail(ctx, m.from, mail)
}

// Mail sends a mail.
func (m *messenger) Mail(ctx context.Context, l tool.Letter) (tool.Delivery, error) {
	mail, err := m.mail(l)
	if err != nil {
		return tool.Delivery{}, err
	}
	sent, err := m.steps.cfg.Outbound.SendMail(ctx, m.from, mail)
	return tool.Delivery(sent), err
}

// Earlier returns what this run of the step sent before.
func (m *messenger) Earlier(ctx context.Context) (_ tool.Delivery, found bool, err error) {
	sent, found, err := m.steps.cfg.Outbound.Earlier(ctx, m.from)
	return tool.Delivery(sent), found, err
}

// sendingCall completes the data of a call that sends something.
func sendingCall(ctx context.Context, s *Steps, t db.Task, step db.Step, record *tool.Tool, call tool.Call) (_ tool.Call, err error) {
	if call.Messages, err = messengerOf(ctx, s, t, step.ID, step.ExecID, nil); err != nil {
		return call, err
	}
	// What was sent needs neither the node nor the approval any more.
	earlier, found, err := call.Messages.Earlier(ctx)
	if err != nil {
		return call, err
	}
	if found {
		call.Earlier = &earlier
		return call, nil
	}
	if record.Inspects() {
		if call.Approved, err = approvedState(step); err != nil {
			return call, err
		}
	}
	if t.NodeID == nil || !record.Inspects() {
		return call, nil
	}
	step.NodeID = t.NodeID
	if call.Node, err = s.node(ctx, step); err != nil {
		return call, err
	}
	p, err := s.persona(ctx, t)
	if err != nil {
		return call, err
	}
	call.Jail, err = s.jailOf(ctx, t, p)
	return call, err
}
