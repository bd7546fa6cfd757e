// Package relay is the hub's model relay: provider keys never leave the hub. A worker's
// client uses the relay as its base URL and its lease as its key. Relay checks lease,
// model and price, reserves what the call may cost in the budgets, adds the provider's key,
// streams in both directions without buffering, reads the usage from the response, and
// settles.
//
// A request is parsed and written again before it is sent, so that the provider reads
// what was checked; unknown fields are refused, as they may cost more than was reserved
// or act without a decision of the hub.
//
// A call is settled before the end of its response is passed on, so that the worker's
// next report finds it. The cost of a call that broke off, or whose response did not
// report its usage, is estimated: see meter.cost.
//
// A call whose lease ends while it is in progress is cut off, and so is one whose
// provider is disconnected, on any hub: the leases and credentials of all calls are read
// together from the database at a short interval, since a hint may be lost. While the
// database does not respond, calls continue: the worker ends its own before the lease can
// have ended.
package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.opentelemetry.io/otel/attribute"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/model/budget"
	"github.com/deckhand-sh/deckhand/hub/model/credential"
	"github.com/deckhand-sh/deckhand/hub/model/price"
	"github.com/deckhand-sh/deckhand/hub/model/tokenestimate"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/lease"
	"github.com/deckhand-sh/deckhand/hub/work/modelaccess"
	"github.com/deckhand-sh/deckhand/internal/dialguard"
	"github.com/deckhand-sh/deckhand/internal/fair"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/provider"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/traceparent"
	"github.com/deckhand-sh/deckhand/internal/tracing"
)

const (
	// maxRequest bounds a model request; providers refuse larger ones.
	maxRequest = 32 << 20
	// bodyBegin is how long a request may take to begin, and bodyRate how many bytes of
	// it must arrive each second from then on.
	bodyBegin = 30 * time.Second
	bodyRate  = 64 << 10
	// maxRoom is how many bytes the requests that are being read may have
	// together, and eachRoom those of one organisation.
	maxRoom  = 512 << 20
	eachRoom = 256 << 20
	// MaxCall is the longest that a call may take.
	MaxCall = 30 * time.Minute
	// Prefix is the path of the relay on the hub's API port; the provider's name follows,
	// and then the path of its own API.
	Prefix = "/relay/"
)

// Config holds the dependencies of the relay.
type Config struct {
	// Authorize returns what a lease may use of a provider, in one query; a stale lease
	// is refused.
	Authorize func(ctx context.Context, le lease.Lease, provider string) (modelaccess.Authorization, error)
	// Ended returns those of the leases that have ended.
	Ended func(ctx context.Context, leases []lease.Lease) ([]lease.Lease, error)
	// Disconnected returns those of the credentials that no longer exist.
	Disconnected func(ctx context.Context, uses []credential.Use) ([]credential.Use, error)
	// Models returns the models that a task may use.
	Models func(ctx context.Context, t db.Task) ([]modelaccess.Model, error)
	// Access returns the way to a provider as it is now.
	Access func(ctx context.Context, orgID, provider string) (credential.Access, error)
	// Refused is called when a provider refuses a key.
	Refused func(ctx context.Context, orgID string, a credential.Access) error
	// Turn waits until a provider may be called, if its calls a minute are limited.
	Turn func(ctx context.Context, orgID, provider string) error
	// Reserve and Settle are the budgets'.
	Reserve func(ctx context.Context, call budget.Call) (*budget.Reservation, error)
	Settle  func(ctx context.Context, r *budget.Reservation, cost budget.Cost) error
	// Failures bounds how often an address may come with leases that there are
	// not; nil for as often as it likes.
	Failures *auth.Rates
	// Guard limits the networks in which the servers that organisations connect may be.
	Guard dialguard.Guard
	// Tracer creates spans; nil for none.
	Tracer *tracing.Tracer
	Redact *redact.Redactor
	Log    hclog.Logger
}

// Relay serves model calls. Mount it at Prefix. It is a lifecycle.Service:
// while it runs, it looks after the calls in progress.
type Relay struct {
	lifecycle.Runner

	cfg   Config
	proxy *httputil.ReverseProxy
	calls calls
	room  *fair.Room
}

// New creates a Relay.
func New(cfg Config) *Relay {
	r := &Relay{cfg: cfg, room: fair.NewRoom(maxRoom, eachRoom)}
	r.proxy = &httputil.ReverseProxy{
		FlushInterval: -1, // every piece of the stream at once
		Transport:     renewing{transports(cfg.Guard), r},
		BufferPool:    newBuffers(),
		ErrorLog:      cfg.Log.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
		Rewrite: func(p *httputil.ProxyRequest) {
			c := callOf(p.In.Context())
			base := *c.base
			p.Out.URL = base.JoinPath(c.rest)
			p.Out.URL.RawQuery = c.query
			p.Out.Host = base.Host
			header := http.Header{"Content-Type": {"application/json"}, "Accept-Encoding": {"identity"}}
			for _, name := range []string{"Accept", "Anthropic-Version", "User-Agent"} {
				if v := p.In.Header.Get(name); v != "" {
					header.Set(name, v)
				}
			}
			c.access.Authorise(header)
			p.Out.Header = header
		},
		ModifyResponse: func(res *http.Response) error {
			return callOf(res.Request.Context()).answered(res)
		},
		ErrorHandler: func(w http.ResponseWriter, req *http.Request, err error) {
			c := callOf(req.Context())
			var op *net.OpError
			if errors.As(err, &op) && op.Op == "dial" {
				c.settle(budget.Cost{Basis: budget.Unsent})
			} else {
				c.settle(c.meter.cost(c.price, c.expected))
			}
			if e := fault.As(context.Cause(req.Context())); e != nil && (e.Code == fault.LeaseEnded || e.Code == fault.NoCredentials) {
				c.format.refuse(w, *refuseFault(e))
				return
			}
			if errors.Is(err, dialguard.ErrRefused) {
				c.format.refuse(w, *refuseFault(fault.New(fault.Precondition, "the hub may not connect to the base_url of provider %s", c.access.Provider.Name).
					WithFix("connect it with the https address of a public server, or have the hub's operator allow its network with --provider-allow")))
				return
			}
			cfg.Log.Warn("a model provider did not answer", "provider", c.access.Provider.Name, "error", cfg.Redact.String(err.Error()))
			c.format.refuse(w, refusal{Status: http.StatusBadGateway, Message: "provider " + c.access.Provider.Name + " did not answer"})
		},
	}
	return r
}

// transports returns the transport that sends calls to providers. For a server that an
// organisation has connected, the guard checks each address; a server from the hub's
// configuration is trusted.
func transports(guard dialguard.Guard) http.RoundTripper {
	set := func(t *http.Transport) {
		// Usage is read off the wire as it passes.
		t.DisableCompression, t.ForceAttemptHTTP2 = true, true
		t.MaxIdleConnsPerHost, t.IdleConnTimeout, t.TLSHandshakeTimeout = 256, 90*time.Second, 10*time.Second
	}
	preset := &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext}
	set(preset)
	return routed{connected: guard.Transport(set), preset: preset}
}

type routed struct{ connected, preset http.RoundTripper }

// RoundTrip sends one call.
func (t routed) RoundTrip(req *http.Request) (*http.Response, error) {
	if callOf(req.Context()).access.ConnectedAt.IsZero() {
		return t.preset.RoundTrip(req)
	}
	return t.connected.RoundTrip(req)
}

// ServeHTTP relays one call.
func (r *Relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	name, rest, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, Prefix), "/")
	p, ok := provider.Of(name)
	f := formats[p.Format]
	if !ok || f == nil {
		formats[provider.OpenAI].refuse(w, refusal{Status: http.StatusNotFound, Message: "the relay knows no such provider"})
		return
	}
	ctx, traced := r.cfg.Tracer.Span(traceparent.With(req.Context(), req.Header.Get(traceparent.Header)), "relay "+p.Name,
		attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.provider.name", p.Name))
	req = req.WithContext(ctx)
	c, refused := r.admit(w, req, p, f, rest)
	if refused != nil {
		traced(errFailed, attribute.Int("http.response.status_code", refused.Status))
		f.refuse(w, *refused)
		return
	}
	defer c.trace(traced)
	ctx, done := r.calls.begin(context.WithValue(ctx, callKey{}, c), c)
	defer done()
	ctx, cancel := context.WithTimeout(ctx, MaxCall)
	defer cancel()
	// Whatever way the call ends, it is settled.
	defer func() { c.settle(c.meter.cost(c.price, c.expected)) }()
	r.proxy.ServeHTTP(w, req.WithContext(ctx))
}

// admit checks a call and reserves what it may cost.
func (r *Relay) admit(w http.ResponseWriter, req *http.Request, p provider.Provider, f format, rest string) (*call, *refusal) {
	ctx := req.Context()
	le, err := parseKey(f.key(req.Header))
	if err != nil {
		return nil, refuseFault(err)
	}
	if err := r.cfg.Failures.MayFail(req.RemoteAddr); err != nil {
		return nil, refuseFault(err)
	}
	grant, err := r.cfg.Authorize(ctx, le, p.Name)
	if err != nil {
		if fault.Is(err, fault.Unauthenticated) || fault.As(err) != nil && fault.As(err).Code == fault.LeaseEnded {
			r.cfg.Failures.Failed(req.RemoteAddr)
		}
		return nil, r.refuse(err, "check the lease")
	}
	t := grant.Task
	body, no := r.readBody(w, req, t)
	if no != nil {
		return nil, no
	}
	asked, err := f.read(req.Method, rest, p, body)
	if err != nil {
		return nil, refuseFault(err)
	}
	m := modelaccess.Model{Provider: p.Name, Name: asked.model}
	allowed, err := r.cfg.Models(ctx, t)
	if err != nil {
		return nil, r.refuse(err, "find the task's models")
	}
	if !slices.Contains(allowed, m) {
		return nil, refuseFault(fault.New(fault.Denied, "task %s may not use model %.100s of %s", t.ID, m.Name, m.Provider).
			WithCode(fault.PermissionDenied).WithFix("name it in the persona, or run the task with it; an administrator says which models may be called: deckhand quota models"))
	}
	c := &call{relay: r, lease: le, format: f, rest: rest, query: asked.query, model: m.Name}
	if c.price, err = grant.Price(m.Name); err != nil {
		return nil, r.refuse(err, "find the price")
	}
	if c.access, err = grant.Access(); err != nil {
		return nil, r.refuse(err, "find the credential")
	}
	if c.base, err = url.Parse(c.access.BaseURL); err != nil {
		return nil, r.refuse(err, "read the provider's address")
	}
	if c.base.Path == "" {
		c.base.Path = "/" // or what is joined to it would begin without one
	}
	if err := r.cfg.Turn(ctx, t.OrgID, p.Name); err != nil {
		return nil, r.refuse(err, "wait for a turn")
	}
	estimate := tokenestimate.Prompt(p, m.Name, body)
	c.expected = expect(asked, provider.ModelInfo(p.Name, m.Name), estimate, grant)
	c.meter = newMeter(f.usage(asked.endpoint), asked)
	if c.reservation, err = r.cfg.Reserve(ctx, budget.Call{Task: t, Provider: p.Name, Model: m.Name, Amount: c.price.Micros(c.price.Dearest(c.expected.most)), Tokens: estimate}); err != nil {
		refused := r.refuse(err, "reserve the cost")
		refused.Own = refused.Code == fault.BudgetLimit && fault.As(err).ObjectID == t.ID
		return nil, refused
	}
	if asked.body, err = r.masked(t.OrgID, asked.body); err != nil {
		return nil, r.refuse(err, "mask the request")
	}
	c.body = asked.body
	req.Body = io.NopCloser(bytes.NewReader(asked.body))
	req.ContentLength = int64(len(asked.body))
	return c, nil
}

// masked returns a request without the secrets in it, including those that the model
// itself produced, because a fallback provider may receive it next.
func (r *Relay) masked(orgID string, body []byte) ([]byte, error) {
	if !r.cfg.Redact.Org(orgID).Knows(body) {
		return body, nil
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber() // as they were written
	var whole any
	if err := d.Decode(&whole); err != nil {
		return nil, fmt.Errorf("read the request again: %w", err)
	}
	return json.Marshal(maskContent(r.cfg.Redact.Org(orgID), whole))
}

// schema are fields whose values belong to the wire format, and never come from a person
// or a model.
var schema = map[string]bool{"type": true, "role": true, "model": true}

// maskContent is mask.Value of a request, except for the values of the wire format: no
// secret of an organisation can make its requests invalid. Arguments of calls are masked
// completely, since a model wrote them.
func maskContent(mask *redact.Redactor, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, value := range v {
			_, list := value.([]any) // such is the conversation in OpenAI's Responses
			switch word, _ := value.(string); {
			case schema[name] && word != "":
				out[name] = word
			case name == "input" && !list || name == "arguments" || name == "args":
				out[name] = mask.Value(value)
			default:
				out[name] = maskContent(mask, value)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, value := range v {
			out[i] = maskContent(mask, value)
		}
		return out
	default:
		return mask.Value(v)
	}
}

// readBody reads a request of a task's within its bounds.
func (r *Relay) readBody(w http.ResponseWriter, req *http.Request, t db.Task) ([]byte, *refusal) {
	bounded := fair.NewBody(w, req, fair.Bounds{Begin: bodyBegin, Rate: bodyRate, Room: r.room}, t.OrgID)
	defer bounded.Leave()
	body, err := io.ReadAll(http.MaxBytesReader(w, bounded, maxRequest))
	switch {
	case err == nil:
		return body, nil
	case errors.Is(err, fair.ErrFull):
		return nil, refuseFault(err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &refusal{Status: http.StatusRequestTimeout, Message: "the request came too slowly", Fix: "send it again"}
	}
	return nil, &refusal{Status: http.StatusRequestEntityTooLarge, Message: "the request cannot be read, or is over 32 MiB", Code: fault.ContextTooLarge}
}

// expected is what a call is expected to use.
type expected struct {
	// most is what is set aside: the estimated prompt, and all the output that it allows.
	most price.Usage
	// likely is the use of the prompt, if the provider does not report it: what was cached
	// of the call before is read from the cache.
	likely price.Usage
}

// expect returns what a call is expected to use, from the estimate of its prompt, which the
// task's call before corrects. A prompt has at most as many tokens as the model can read.
func expect(asked *request, m provider.Model, estimate int64, grant modelaccess.Authorization) expected {
	input := tokenestimate.Next(estimate, grant.Seen)
	if m.ContextTokens > 0 {
		input = min(input, m.ContextTokens)
	}
	e := expected{most: price.Usage{Input: input, Output: asked.maxTokens}}
	e.likely.CacheRead = min(grant.Cached, input)
	if e.likely.Input = input - e.likely.CacheRead; grant.Cached > 0 || asked.cachesHour {
		e.likely.Input, e.likely.CacheWrite = 0, e.likely.Input
	}
	if asked.cachesHour {
		e.most.CacheWriteHour, e.likely.CacheWriteHour = input, e.likely.CacheWrite
	}
	return e
}

// parseKey reads the key a worker sends: task, attempt and lease token.
func parseKey(key string) (lease.Lease, error) {
	bad := fault.New(fault.Unauthenticated, "the key is not a lease").WithFix("send task:attempt:token as the key")
	parts := strings.Split(key, ":")
	if len(parts) != 3 || parts[0] == "" || parts[2] == "" {
		return lease.Lease{}, bad
	}
	attempt, err := strconv.ParseInt(parts[1], 10, 32)
	if err != nil {
		return lease.Lease{}, bad
	}
	return lease.Lease{TaskID: parts[0], Attempt: int32(attempt), Token: parts[2]}, nil
}
