package notification

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	netmail "net/mail"
	"slices"
	"strings"
	"time"

	"github.com/wneessen/go-mail"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/crashpoint"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// The states of what an agent sends.
const (
	outboundSending = "sending"
	outboundSent    = "sent"
	outboundRefused = "refused"
	outboundUnknown = "unknown"
)

const (
	// outboundSlack is how much longer than it may send a hub may take to store how that
	// went. A call that is older was left by a hub that died.
	outboundSlack = 5 * time.Second
	outboundLook  = 250 * time.Millisecond
	// maxSaid bounds what an agent gets of a response, in characters.
	maxSaid = 2000
)

// Sent is how it went to send something at most once.
type Sent struct {
	// To is the name of the destination.
	To string
	// Status is that of HTTP or SMTP; 0 if there was none.
	Status int
	// Said is the beginning of the response.
	Said string
	// Refused is why it was not sent; nil if it was, or may have been.
	Refused *fault.Error
	// Unknown reports that the receiver may have it or not.
	Unknown bool
}

// once sends something at most once for each run of a step. If a hub dies in between, or
// another one sends now, it waits for the result and returns Unknown if there will be none.
func (s Outbound) once(ctx context.Context, from Sender, to outlet, send func(context.Context) outcome) (Sent, error) {
	first := false
	err := s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) (err error) {
		_, err = tx.GetOutboundCall(ctx, db.GetOutboundCallParams{OrgID: from.OrgID, ExecID: from.ExecID})
		if !store.IsNotFound(err) {
			return err // it was claimed before, maybe for another account, and needs no room
		}
		if err := s.room(ctx, tx.Queries, from, to.row, to.spec.GetForAgents().GetCallsPerHour()); err != nil {
			return err
		}
		first, err = claim(ctx, tx.Queries, from, to.row.ID, outboundSending)
		return err
	})
	if err != nil {
		return Sent{}, err
	}
	if !first {
		return s.await(ctx, from)
	}
	// The sending goes on to its end, also if the caller gives up.
	sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Timeout)
	defer cancel()
	got := send(sending)
	crashpoint.At(crashpoint.AfterOutbound, from.Task.ID, from.StepID)
	p := db.SettleOutboundCallParams{OrgID: from.OrgID, ExecID: from.ExecID, DestinationID: to.row.ID, State: outboundSent, Status: int32(got.status), Said: got.said} //nolint:gosec // three digits
	if got.err != nil {
		p.State, p.Said = outboundRefused, got.err.Error()
		if got.maybe {
			p.State = outboundUnknown
		}
	}
	p.Said = oneLine(s.cfg.Redact.Org(from.OrgID).String(p.Said), maxSaid)
	if _, err := s.cfg.Store.SettleOutboundCall(context.WithoutCancel(ctx), p); err != nil {
		return Sent{}, fmt.Errorf("store how step %s was sent: %w", from.StepID, err)
	}
	return sent(to.row.Name, p.State, int(p.Status), p.Said), nil
}

func sent(to, state string, status int, said string) Sent {
	out := Sent{To: to, Status: status, Said: said, Unknown: state == outboundUnknown || state == outboundSending}
	if state == outboundRefused {
		out.Refused = fault.New(fault.Precondition, "%s did not take it: %s", to, said).WithCode(fault.ToolFailed).
			WithFix("correct what you send if it says what is wrong, and otherwise tell a person")
	}
	return out
}

// Earlier returns how it went if a mail or a call of a webhook was sent by this run of a step
// before, or is being sent, which it waits for. found is false if nothing was. What was sent
// then counts, whatever has changed since.
func (s Outbound) Earlier(ctx context.Context, from Sender) (_ Sent, found bool, err error) {
	earlier, err := s.await(ctx, from)
	if store.IsNotFound(err) {
		return Sent{}, false, nil
	}
	return earlier, err == nil, err
}

// await returns how a call ended that another one sends or has sent.
func (s Outbound) await(ctx context.Context, from Sender) (Sent, error) {
	tick := time.NewTicker(outboundLook)
	defer tick.Stop()
	for {
		row, err := s.cfg.Store.GetOutboundCall(ctx, db.GetOutboundCallParams{OrgID: from.OrgID, ExecID: from.ExecID})
		if err != nil {
			return Sent{}, fmt.Errorf("load how step %s was sent: %w", from.StepID, err)
		}
		if c := row.OutboundCall; c.State != outboundSending || row.Age > s.cfg.Timeout+outboundSlack {
			return sent(row.Destination, c.State, int(c.Status), c.Said), nil
		}
		select {
		case <-ctx.Done():
			return Sent{}, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// Trigger calls the webhook of a destination with an event of an agent, signed as Standard
// Webhooks. Its id, also as Idempotency-Key, is the step's: the receiver recognises a call
// that a person has repeated.
func (s Outbound) Trigger(ctx context.Context, from Sender, name, kind string, data map[string]any) (Sent, error) {
	to, err := s.outlet(ctx, s.cfg.Store.Queries, from, name, kindWebhook)
	if err != nil {
		return Sent{}, err
	}
	secret, err := s.secret(to.row)
	if err != nil {
		return Sent{}, err
	}
	e := s.event(from, kind, data)
	e.Data.Summary = oneLine(fmt.Sprintf("Agent %s: %s", from.AgentName, kind), maxSummary)
	body, err := json.Marshal(e)
	if err != nil {
		return Sent{}, fmt.Errorf("encode step %s: %w", from.StepID, err)
	}
	return s.once(ctx, from, to, func(ctx context.Context) outcome {
		return signed(ctx, s.Service, s.single, to.spec.GetWebhook(), secret, from.StepID, body, map[string]string{"Idempotency-Key": from.StepID})
	})
}

// Mail is a message of plain text.
type Mail struct {
	// Account is the name of an email destination; empty for the only one that the agent may
	// use.
	Account     string
	To          []string
	Subject     string
	Text        string
	Attachments []Attachment
}

// Attachment is a file that goes with a mail.
type Attachment struct {
	Name string
	Data []byte
}

// CheckMail returns the account that a mail would be sent from and its address, or why it may
// not be sent.
func (s Outbound) CheckMail(ctx context.Context, from Sender, m Mail) (account, address string, err error) {
	to, err := s.outlet(ctx, s.cfg.Store.Queries, from, m.Account, kindEmail)
	if err != nil {
		return "", "", err
	}
	return to.row.Name, to.spec.GetEmail().GetFrom(), permitted(to, m)
}

// permitted returns an error for an address that the account may not send to.
func permitted(from outlet, m Mail) error {
	allowed := from.spec.GetForAgents().GetRecipients()
	for _, address := range m.To {
		parsed, err := netmail.ParseAddress(address)
		if err != nil || parsed.Address != address {
			return fault.New(fault.Invalid, "to has %.200q, which is not an address", oneLine(address, maxSummary)).WithCode(fault.InvalidParameters).
				WithFix("give addresses without names, such as ops@example.com")
		}
		at := strings.LastIndexByte(address, '@')
		if !slices.ContainsFunc(allowed, func(a string) bool {
			return strings.EqualFold(a, address) || strings.HasPrefix(a, "@") && strings.EqualFold(a, address[at:])
		}) {
			return fault.New(fault.Denied, "account %s may not send to %s", from.row.Name, address).WithCode(fault.PermissionDenied).
				WithFix("it may send to: %s. An administrator allows more: deckhand destination update %s --recipient ADDRESS", strings.Join(allowed, ", "), from.row.Name)
		}
	}
	return nil
}

// SendMail sends a mail from an account.
func (s Outbound) SendMail(ctx context.Context, from Sender, m Mail) (Sent, error) {
	to, err := s.outlet(ctx, s.cfg.Store.Queries, from, m.Account, kindEmail)
	if err != nil {
		return Sent{}, err
	}
	if err := permitted(to, m); err != nil {
		return Sent{}, err
	}
	secret, err := s.secret(to.row)
	if err != nil {
		return Sent{}, err
	}
	account := to.spec.GetEmail()
	msg := mail.NewMsg(mail.WithNoDefaultUserAgent())
	if err := errors.Join(msg.From(account.GetFrom()), msg.To(m.To...)); err != nil {
		return Sent{}, fault.New(fault.Invalid, "the addresses cannot be used: %v", err).WithCode(fault.InvalidParameters)
	}
	msg.Subject(oneLine(m.Subject, maxSubject))
	msg.SetDateWithValue(time.Now().UTC())
	msg.SetMessageIDWithValue(from.ExecID + "@deckhand.invalid")
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetGenHeader("X-Deckhand-Agent", oneLine(from.AgentName, maxSubject))
	msg.SetGenHeader("X-Deckhand-Step", from.StepID)
	msg.SetBodyString(mail.TypeTextPlain, m.Text)
	for _, a := range m.Attachments {
		// Of no type that a program of mail opens by itself.
		if err := msg.AttachReader(a.Name, bytes.NewReader(a.Data), mail.WithFileContentType("application/octet-stream")); err != nil {
			return Sent{}, fmt.Errorf("attach %s: %w", a.Name, err)
		}
	}
	return s.once(ctx, from, to, func(ctx context.Context) outcome { return s.sendMail(ctx, account, secret.Now, msg) })
}
