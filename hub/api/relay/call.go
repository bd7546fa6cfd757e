package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"

	"go.opentelemetry.io/otel/attribute"

	"github.com/deckhand-sh/deckhand/hub/model/budget"
	"github.com/deckhand-sh/deckhand/hub/model/credential"
	"github.com/deckhand-sh/deckhand/hub/model/price"
	"github.com/deckhand-sh/deckhand/hub/work/lease"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// call is one relayed call that was admitted.
type call struct {
	relay       *Relay
	lease       lease.Lease
	cut         context.CancelCauseFunc
	format      format
	base        *url.URL
	rest, query string
	body        []byte // as it is sent
	access      credential.Access
	price       price.Model
	expected    expected
	meter       *meter
	reservation *budget.Reservation
	settled     sync.Once

	// For its span: the model, what it cost, and the provider's status, 0 where
	// it did not answer.
	model  string
	cost   budget.Cost
	status int
}

// errFailed marks a span as failed; the cause is in the log.
var errFailed = errors.New("the call failed")

// trace ends the call's span.
func (c *call) trace(end func(err error, about ...attribute.KeyValue)) {
	var err error
	if c.status == 0 || c.status >= http.StatusMultipleChoices {
		err = errFailed
	}
	end(err, attribute.String("gen_ai.request.model", c.model), attribute.Int("http.response.status_code", c.status),
		attribute.Int64("gen_ai.usage.input_tokens", c.cost.Usage.Input), attribute.Int64("gen_ai.usage.output_tokens", c.cost.Usage.Output))
}

type callKey struct{}

func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// settle is done once: the first figure counts.
func (c *call) settle(cost budget.Cost) {
	c.settled.Do(func() {
		c.cost = cost
		if err := c.relay.cfg.Settle(context.Background(), c.reservation, cost); err != nil {
			c.relay.cfg.Log.Error("cannot settle a model call; it stays reserved until it counts as lost", "call_id", c.reservation.ID,
				"task_id", c.reservation.TaskID, "error", err)
		}
	})
}

// maxErrorBody bounds the body of a provider's error.
const maxErrorBody = 64 << 10

// answered checks the provider's response before it is passed on.
func (c *call) answered(res *http.Response) error {
	res.Header.Del("Set-Cookie")
	c.status = res.StatusCode
	if res.StatusCode < http.StatusMultipleChoices {
		c.meter.streaming = isStream(res.Header)
		res.Body = &tap{ReadCloser: res.Body, call: c}
		return nil
	}
	// Providers do not charge for errors.
	c.settle(budget.Cost{Basis: budget.Unsent})
	body, err := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
	if err != nil {
		return fmt.Errorf("read the provider's error: %w", err)
	}
	_ = res.Body.Close()
	text := []byte(c.relay.cfg.Redact.Org(c.reservation.OrgID).String(string(body)))
	switch {
	case res.StatusCode < http.StatusBadRequest:
		// A redirect would take the call, and a client that follows it, elsewhere.
		res.Header.Del("Location")
		res.StatusCode, res.Status = http.StatusBadGateway, ""
		text = c.format.body(refusal{Status: res.StatusCode, Message: "the provider answered with a redirect: check its base_url"})
	case res.StatusCode == http.StatusUnauthorized:
		name := c.access.Provider.Name
		if err := c.relay.cfg.Refused(context.WithoutCancel(res.Request.Context()), c.reservation.OrgID, c.access); err != nil {
			c.relay.cfg.Log.Warn("cannot record that a key was refused", "provider", name, "error", err)
		}
		// Providers quote parts of the key.
		text = c.format.body(refusal{Status: res.StatusCode, Message: name + " refuses the key"})
		res.Header.Set(fault.CodeHeader, string(fault.CredentialInvalid))
		res.Header.Set(fault.FixHeader, credential.ConnectAgain(name, c.access.Login)+", then resume the task")
	}
	replace(res, text)
	return nil
}

// tap passes an answer on and meters it.
type tap struct {
	io.ReadCloser

	call *call
}

// Read implements io.Reader. The read that sees the end settles first.
func (t *tap) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	m := t.call.meter
	m.write(p[:n])
	if err == io.EOF { //nolint:errorlint // readers answer it bare
		m.end()
	}
	if m.done {
		t.call.settle(m.cost(t.call.price, t.call.expected))
	}
	return n, err
}
