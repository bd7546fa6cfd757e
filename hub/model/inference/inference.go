// Package inference makes the model calls that are the hub's own, which no task makes:
// embeddings of documents, and texts that it has worded. Models is its service.
//
// The rules are those of the relay: the organisation has to have connected the provider and
// to allow the model, the model has a price, calls take their turn if the calls a minute are
// limited, what a call may cost is reserved in the budgets before it is sent, and secrets
// that the hub knows are masked in what is sent.
//
// A call that fails is an error that says whether it is worth another try (Retriable): one
// that the provider refused for what it is will be refused again. What an answer reports is
// what it costs; a call whose answer is lost costs its estimate.
package inference

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/deckhand-sh/deckhand/hub/model/budget"
	"github.com/deckhand-sh/deckhand/hub/model/credential"
	"github.com/deckhand-sh/deckhand/hub/model/price"
	"github.com/deckhand-sh/deckhand/hub/model/tokenestimate"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/dialguard"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/provider"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/textcut"
)

// Config holds the dependencies of Models. All are required.
type Config struct {
	// Usable refuses a model that an organisation cannot call.
	Usable func(ctx context.Context, orgID, provider, model string) error
	// Price returns what a model costs.
	Price func(ctx context.Context, orgID, provider, model string) (price.Model, error)
	// Access returns the way to a provider, and Refused is called when it refuses the key.
	Access  func(ctx context.Context, orgID, provider string) (credential.Access, error)
	Refused func(ctx context.Context, orgID string, a credential.Access) error
	// Turn waits until a provider may be called.
	Turn func(ctx context.Context, orgID, provider string) error
	// Reserve and Settle are the budgets'.
	Reserve func(ctx context.Context, call budget.Call) (*budget.Reservation, error)
	Settle  func(ctx context.Context, r *budget.Reservation, cost budget.Cost) error
	// Guard limits the networks in which the servers that organisations connect may be.
	Guard  dialguard.Guard
	Redact *redact.Redactor
}

// Models makes calls. It is safe for concurrent use.
type Models struct {
	cfg Config
	// connected reaches the servers that organisations have connected, preset those of the
	// hub's configuration.
	connected, preset *http.Client
}

const (
	// callTime bounds one call.
	callTime = 2 * time.Minute
	// maxAnswer bounds an answer.
	maxAnswer = 64 << 20
)

// New creates Models.
func New(cfg Config) *Models {
	client := func(t http.RoundTripper) *http.Client {
		return &http.Client{Transport: t, Timeout: callTime, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return &Models{
		cfg:       cfg,
		connected: client(cfg.Guard.Transport(func(t *http.Transport) { t.IdleConnTimeout = time.Minute })),
		preset:    client(&http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext, IdleConnTimeout: time.Minute}),
	}
}

// Close closes idle connections.
func (m *Models) Close() {
	m.connected.CloseIdleConnections()
	m.preset.CloseIdleConnections()
}

// Model is a model of a provider, called for an organisation.
type Model struct {
	OrgID, Provider, Name string
	// User is the name of the user that has asked for the call, whose budgets it draws on, too;
	// empty for nobody.
	User string
}

// Check refuses a model that cannot be called.
func (m *Models) Check(ctx context.Context, of Model) error {
	p, ok := provider.Of(of.Provider)
	if !ok || p.Format != provider.OpenAI && p.Format != provider.Gemini && p.Format != provider.Messages {
		return fault.New(fault.Invalid, "provider %.60q has no models", of.Provider).WithCode(fault.InvalidParameters).WithFix("name one of: deckhand provider list")
	}
	if err := m.cfg.Usable(ctx, of.OrgID, of.Provider, of.Name); err != nil {
		return err
	}
	_, err := m.cfg.Price(ctx, of.OrgID, of.Provider, of.Name)
	return err
}

// Refusal is the answer of a provider that did not do what it was asked for.
type Refusal struct {
	Provider string
	// Status is that of HTTP, and 0 if there was no answer.
	Status int
	// Said is what the provider said, without secrets.
	Said  string
	cause error
}

// Error says what the provider said.
func (r *Refusal) Error() string {
	if r.Status == 0 {
		return r.Short()
	}
	return r.Short() + ": " + r.Said
}

// Short is Error without what the provider said, which may quote what it was sent.
func (r *Refusal) Short() string {
	if r.Status == 0 {
		return r.Provider + " did not answer"
	}
	return fmt.Sprintf("%s answered with HTTP %d", r.Provider, r.Status)
}

// Unwrap returns why there was no answer.
func (r *Refusal) Unwrap() error { return r.cause }

// Retriable reports whether a call that failed may succeed if it is made again as it is.
func Retriable(err error) bool {
	var r *Refusal
	if errors.As(err, &r) {
		return r.Status == 0 || r.Status == http.StatusTooManyRequests || r.Status == http.StatusRequestTimeout || r.Status >= http.StatusInternalServerError
	}
	e := fault.As(err)
	return e != nil && e.Code == fault.RateLimited
}

// call is one request to a provider.
type call struct {
	path string
	body any
	// output is how many tokens the answer has at most.
	output int64
	header http.Header
}

// used is what an answer reports of what it used; negative for nothing.
type used struct{ input, output int64 }

// send sends a request and has an answer read, which returns what it used.
func (m *Models) send(ctx context.Context, of Model, c call, read func(answer []byte) (used, error)) (err error) {
	if err := m.cfg.Usable(ctx, of.OrgID, of.Provider, of.Name); err != nil {
		return err
	}
	costs, err := m.cfg.Price(ctx, of.OrgID, of.Provider, of.Name)
	if err != nil {
		return err
	}
	access, err := m.cfg.Access(ctx, of.OrgID, of.Provider)
	if err != nil {
		return err
	}
	if err := m.cfg.Turn(ctx, of.OrgID, of.Provider); err != nil {
		return err
	}
	body, err := json.Marshal(c.body)
	if err != nil {
		return fmt.Errorf("write a call of %s: %w", of.Name, err)
	}
	estimate := tokenestimate.Prompt(access.Provider, of.Name, body)
	reservation, err := m.cfg.Reserve(ctx, budget.Call{
		Task: db.Task{OrgID: of.OrgID, CreatedBy: of.User}, Provider: of.Provider, Model: of.Name, Tokens: estimate,
		Amount: costs.Micros(costs.Dearest(price.Usage{Input: estimate, Output: c.output})),
	})
	if err != nil {
		return err
	}
	cost := budget.Cost{Basis: budget.Unsent}
	defer func() { err = errors.Join(err, m.cfg.Settle(ctx, reservation, cost)) }()
	answer, sent, err := m.post(ctx, of, access, c, body)
	usage := price.Usage{Input: estimate}
	if sent {
		cost = budget.Cost{Basis: budget.Estimated, Usage: usage, Micros: costs.Micros(usage), LimitTokens: costs.LimitTokens(usage)}
	}
	if err != nil {
		return err
	}
	got, err := read(answer)
	if got.input >= 0 && err == nil {
		usage = price.Usage{Input: got.input, Output: max(got.output, 0)}
		cost = budget.Cost{Basis: budget.Reported, Usage: usage, Micros: costs.Micros(usage), LimitTokens: costs.LimitTokens(usage)}
	}
	return err
}

// post sends a request once. sent reports whether the provider may charge for it.
func (m *Models) post(ctx context.Context, of Model, access credential.Access, c call, body []byte) (answer []byte, sent bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, access.BaseURL+c.path, bytes.NewReader(body))
	if err != nil {
		return nil, false, fmt.Errorf("make a call of %s: %w", of.Name, err)
	}
	for name, values := range c.header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")
	access.Authorise(req.Header)
	client := m.connected
	if access.ConnectedAt.IsZero() {
		client = m.preset
	}
	res, err := client.Do(req)
	if err != nil {
		if errors.Is(err, dialguard.ErrRefused) {
			return nil, false, fault.New(fault.Precondition, "the hub may not connect to the base_url of provider %s", of.Provider).
				WithFix("connect it with the https address of a public server, or have the hub's operator allow its network with --provider-allow")
		}
		var op *net.OpError
		return nil, !(errors.As(err, &op) && op.Op == "dial"), &Refusal{Provider: of.Provider, cause: err}
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case res.StatusCode == http.StatusUnauthorized,
		access.Provider.Format == provider.Gemini && res.StatusCode == http.StatusBadRequest && bytes.Contains(data, []byte("API_KEY_INVALID")):
		// Providers quote parts of the key.
		return nil, false, errors.Join(fault.New(fault.Precondition, "%s refuses the key", of.Provider).WithCode(fault.CredentialInvalid).
			WithFix("%s", credential.ConnectAgain(of.Provider, access.Login)), m.cfg.Refused(context.WithoutCancel(ctx), of.OrgID, access))
	case res.StatusCode >= http.StatusMultipleChoices:
		said := textcut.Runes(m.cfg.Redact.Org(of.OrgID).String(string(data[:min(len(data), maxSaid)])), maxSaid/2, "…")
		return nil, false, &Refusal{Provider: of.Provider, Status: res.StatusCode, Said: said}
	case err != nil:
		return nil, true, &Refusal{Provider: of.Provider, cause: err}
	case len(data) > maxAnswer:
		return nil, true, fault.New(fault.Precondition, "the answer of %s is over %d MiB", of.Provider, maxAnswer>>20).WithFix("use another model")
	}
	return data, true, nil
}

// maxSaid bounds what is kept of a provider's error.
const maxSaid = 600

// strange returns the error for an answer that is not what was asked for.
func strange(of Model, format string, args ...any) error {
	return fault.New(fault.Precondition, "model %.100s of %s gave an answer that cannot be used: %s", of.Name, of.Provider, fmt.Sprintf(format, args...)).
		WithFix("check that the model is one for this: deckhand provider list")
}
