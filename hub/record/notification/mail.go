package notification

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/wneessen/go-mail"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	portStartTLS = 587
	portTLS      = 465
	maxSubject   = 150
	securityTLS  = "tls"
	securityNone = "none"
)

// mail sends an event as text.
func (s *Service) mail(ctx context.Context, m *deckhandv1.EmailDestination, password, id string, e CloudEvent) outcome {
	msg, err := message(m, id, e)
	if err != nil {
		return outcome{err: err}
	}
	return Outbound{s}.sendMail(ctx, m, password, msg)
}

// sendMail sends a message by the server of a destination.
func (s Outbound) sendMail(ctx context.Context, m *deckhandv1.EmailDestination, password string, msg *mail.Msg) outcome {
	plain := m.GetSecurity() == securityNone
	dialer := s.guard.Dialer(plain)
	port := int(m.GetPort())
	options := []mail.Option{mail.WithTimeout(s.cfg.Timeout), mail.WithTLSPolicy(mail.TLSMandatory), mail.WithHELO("deckhand.invalid")}
	dial := dialer.DialContext
	switch m.GetSecurity() {
	case securityTLS:
		if port == 0 {
			port = portTLS
		}
		dial = (&tls.Dialer{NetDialer: dialer, Config: &tls.Config{ServerName: m.GetHost(), MinVersion: tls.VersionTLS12}}).DialContext
		options = append(options, mail.WithTLSPolicy(mail.NoTLS)) // the connection is encrypted already
	case securityNone:
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	}
	if port == 0 {
		port = portStartTLS
	}
	sending := ctx
	options = append(options, mail.WithPort(port), mail.WithDialContextFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err == nil {
			// The library gives each command its own timeout: all together get the time
			// of the sending.
			context.AfterFunc(sending, func() { _ = conn.Close() })
		}
		return conn, err
	}))
	if m.GetUsername() != "" {
		options = append(options, mail.WithUsername(m.GetUsername()), mail.WithPassword(password),
			mail.WithOpportunisticSMTPAuth(mail.SMTPAuthSCRAMSHA256, mail.SMTPAuthPlain, mail.SMTPAuthLogin))
	}
	client, err := mail.NewClient(m.GetHost(), options...)
	if err != nil {
		return outcome{err: fmt.Errorf("prepare mail: %w", err)}
	}
	// What fails after the server has accepted it does not matter.
	if err = client.DialAndSendWithContext(ctx, msg); err == nil || msg.IsDelivered() {
		return outcome{}
	}
	out := outcome{err: plainly(err, password)}
	var refused *mail.SendError
	if errors.As(err, &refused) {
		out.status = refused.ErrorCode()
		// The whole message was sent, and there was no response to it.
		out.maybe = refused.Reason == mail.ErrSMTPDataClose && out.status == 0
	}
	return out
}

// message returns the mail. External text gets into no header except the subject, as one
// line.
func message(m *deckhandv1.EmailDestination, id string, e CloudEvent) (*mail.Msg, error) {
	msg := mail.NewMsg(mail.WithNoDefaultUserAgent())
	if err := errors.Join(msg.From(m.GetFrom()), msg.To(m.GetTo()...)); err != nil {
		return nil, fmt.Errorf("the addresses cannot be used: %w", err)
	}
	msg.Subject(oneLine("[Deckhand] "+e.Data.Summary, maxSubject))
	msg.SetDateWithValue(e.Time)
	// The same for a mail that is sent again, so that it is shown once.
	msg.SetMessageIDWithValue(id + "@deckhand.invalid")
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetGenHeader("X-Deckhand-Event", e.Type)
	var text strings.Builder
	text.WriteString(e.Data.Summary + "\n\n")
	line := func(name, value string) {
		if value != "" {
			text.WriteString(name + ": " + oneLine(value, maxSummary) + "\n")
		}
	}
	line("event", e.Type)
	line("time", e.Time.UTC().Format("2006-01-02 15:04:05 UTC"))
	if e.Data.Agent != nil {
		line("agent", e.Data.Agent.Name)
	}
	if e.Data.Task != nil {
		line("task", e.Data.Task.ID+" "+e.Data.Task.Name)
	}
	if e.Data.RetryCount != nil {
		line("retries", strconv.Itoa(int(*e.Data.RetryCount)))
	}
	if said := e.message(); said != "" {
		text.WriteString("\n" + said + "\n")
	}
	if todo := advice(e); todo != "" {
		text.WriteString("\n" + todo + "\n")
	}
	msg.SetBodyString(mail.TypeTextPlain, text.String())
	return msg, nil
}
