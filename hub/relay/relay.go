// Package relay is the hub's model relay: provider keys never leave the hub. A
// worker's client has the relay as its base URL and its lease as its key; the
// relay checks lease and model, puts the provider's key in place, and streams
// both ways. A call whose lease ends while it is under way is cut off, whichever
// hub ended it: the leases of all calls are looked at together, from the
// database, since no other hint may be lost. While the database does not answer,
// calls go on: the worker ends its own before the lease can have ended.
package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/hub/lease"
	"github.com/deckhand-sh/deckhand/hub/store/db"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
)

// maxRequest bounds a model request; providers refuse larger ones.
const maxRequest = 32 << 20

// Config says what the relay works with.
type Config struct {
	// BaseURL is the provider's address, for example https://api.anthropic.com.
	BaseURL string
	// Key is the provider's key; empty refuses every call with what to set.
	Key config.Secret
	// Check answers the task that a lease holds; a stale lease is refused.
	Check func(ctx context.Context, le lease.Lease) (db.Task, error)
	// Ended answers those of the leases that have ended.
	Ended func(ctx context.Context, leases []lease.Lease) ([]lease.Lease, error)
	// Model answers the provider and model that a task may use.
	Model func(ctx context.Context, t db.Task) (provider, model string, err error)
	Log   hclog.Logger
}

// Anthropic relays the Messages API. Mount it at Prefix. It is a
// lifecycle.Service: while it runs, it looks after the calls under way.
type Anthropic struct {
	lifecycle.Runner

	cfg   Config
	proxy *httputil.ReverseProxy
	calls calls
}

// Prefix is where the relay is mounted on the hub's API port.
const Prefix = "/relay/anthropic"

// NewAnthropic makes the relay.
func NewAnthropic(cfg Config) (*Anthropic, error) {
	base, err := url.Parse(cfg.BaseURL)
	if err != nil || base.Host == "" || (base.Scheme != "https" && base.Scheme != "http") {
		return nil, fault.New(fault.Invalid, "anthropic-base-url %q is not a URL", cfg.BaseURL).WithFix("use https://api.anthropic.com")
	}
	a := &Anthropic{cfg: cfg}
	a.proxy = &httputil.ReverseProxy{
		FlushInterval: -1, // every piece of the stream at once
		// Of streams that break off, which both sides see.
		ErrorLog: cfg.Log.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(base)
			r.Out.Host = base.Host
			r.Out.URL.Path = strings.TrimSuffix(base.Path, "/") + strings.TrimPrefix(r.In.URL.Path, Prefix)
			for _, h := range []string{"Authorization", "Cookie"} {
				r.Out.Header.Del(h)
			}
			r.Out.Header.Set("X-Api-Key", cfg.Key.Reveal())
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if e := fault.As(context.Cause(r.Context())); e != nil && e.Code == fault.LeaseEnded {
				refuseFault(w, http.StatusUnauthorized, e)
				return
			}
			cfg.Log.Warn("model provider did not answer", "error", err)
			refuse(w, http.StatusBadGateway, "api_error", "the model provider did not answer")
		},
	}
	return a, nil
}

// ServeHTTP relays one call.
func (a *Anthropic) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.URL.Path != Prefix+"/v1/messages" {
		refuse(w, http.StatusNotFound, "not_found_error", "the relay serves POST /v1/messages only")
		return
	}
	le, err := parseKey(r.Header.Get("X-Api-Key"))
	if err != nil {
		refuse(w, http.StatusUnauthorized, "authentication_error", err.Error())
		return
	}
	t, err := a.cfg.Check(r.Context(), le)
	if fault.Is(err, fault.Precondition) {
		refuseFault(w, http.StatusUnauthorized, err)
		return
	}
	if err != nil {
		a.cfg.Log.Error("cannot check a lease", "task_id", le.TaskID, "error", err)
		refuse(w, http.StatusServiceUnavailable, "api_error", "the hub cannot check the lease now")
		return
	}
	if err := a.checkModel(w, r, t); err != nil {
		refuseFault(w, http.StatusForbidden, err)
		return
	}
	if a.cfg.Key == "" {
		refuseFault(w, http.StatusForbidden, fault.New(fault.Precondition, "no Anthropic key is connected").
			WithCode(fault.NoCredentials).WithFix("start the hub with ANTHROPIC_API_KEY in its environment"))
		return
	}
	ctx, done := a.calls.begin(r.Context(), le)
	defer done()
	a.proxy.ServeHTTP(w, r.WithContext(ctx))
}

// checkModel reads the request and refuses a model that is not the task's.
func (a *Anthropic) checkModel(w http.ResponseWriter, r *http.Request, t db.Task) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	// A map, since keys of a struct match whatever their case.
	var request map[string]json.RawMessage
	if err := json.Unmarshal(body, &request); err != nil {
		return fmt.Errorf("the request is not a JSON object: %w", err)
	}
	var asked string
	if err := json.Unmarshal(request["model"], &asked); err != nil {
		return fmt.Errorf("the request's model is not a string: %w", err)
	}
	provider, model, err := a.cfg.Model(r.Context(), t)
	if err != nil {
		return fmt.Errorf("find the model of task %s: %w", t.ID, err)
	}
	if provider != "anthropic" || asked != model {
		return fault.New(fault.Denied, "task %s may use model %s of %s, not %s of anthropic", t.ID, model, provider, asked).
			WithCode(fault.PermissionDenied)
	}
	// Written anew, so that the provider reads what was checked.
	if body, err = json.Marshal(request); err != nil {
		return fmt.Errorf("write the request: %w", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	return nil
}

// parseKey reads the key a worker sends: task, attempt and lease token.
func parseKey(key string) (lease.Lease, error) {
	bad := fault.New(fault.Unauthenticated, "the key is not a lease").WithFix("send task:attempt:token as x-api-key")
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

// refuseFault answers an error of the hub's own.
func refuseFault(w http.ResponseWriter, status int, err error) {
	message := err.Error()
	if e := fault.As(err); e != nil {
		message = e.Message
		w.Header().Set(fault.CodeHeader, string(e.Code))
		w.Header().Set(fault.FixHeader, e.Fix)
	}
	kind := "permission_error"
	if status == http.StatusUnauthorized {
		kind = "authentication_error"
	}
	refuse(w, status, kind, message)
}

// refuse answers in the shape of the provider's errors, so that every client
// of it understands.
func refuse(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"type": "error", "error": map[string]any{"type": kind, "message": message},
	})
}
