package worker

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/provider"
	"github.com/deckhand-sh/deckhand/internal/traceparent"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
	"github.com/deckhand-sh/deckhand/worker/model/anthropic"
	"github.com/deckhand-sh/deckhand/worker/model/failover"
	"github.com/deckhand-sh/deckhand/worker/model/gemini"
	"github.com/deckhand-sh/deckhand/worker/model/openai"
	"github.com/deckhand-sh/deckhand/worker/model/script"
)

// model makes the model that a task runs with.
func (w *Worker) model(p *persona.Persona, claim *deckhandv1.ClaimTaskResponse) (model.Model, error) {
	name, of := claim.GetTask().GetProvider(), claim.GetTask().GetModel()
	if name == "" {
		name = p.Provider
	}
	if of == "" {
		of = p.Model
	}
	known, ok := provider.Of(name)
	if !ok || known.Format.Searches() {
		return nil, fault.New(fault.Invalid, "workers cannot run provider %q", name).
			WithCode(fault.ModelUnavailable).WithFix("use one of %s in the persona", strings.Join(provider.Runnable(), ", "))
	}
	if known.Format == provider.Script {
		s, err := script.Parse(p.Script, []byte(claim.GetScript()))
		if err != nil {
			return nil, fault.New(fault.Invalid, "the script cannot be read: %s", err).
				WithCode(fault.TaskParsing).WithFix("correct %s and apply the persona again", p.Script)
		}
		return counted{s, name, w.metrics, of, w.cfg.Tracer}, nil
	}
	candidates := []persona.Fallback{{Provider: name, Model: of}}
	if claim.GetTask().GetOverride().GetProvider() == "" { // who chose another model wants that one
		candidates = append(candidates, p.Fallbacks...)
	}
	return w.anyOf(candidates, claim, spokeLast(candidates, claim.GetTurns()))
}

// summarizer makes the model that writes a task's summaries: the one that the
// persona names for it, or nil for the task's own.
func (w *Worker) summarizer(p *persona.Persona, claim *deckhandv1.ClaimTaskResponse) (model.Model, error) {
	first := p.Context.SummaryModel
	if first == (persona.Fallback{}) || claim.GetTask().GetOverride().GetProvider() != "" { // who chose another model wants that one
		return nil, nil //nolint:nilnil // there is none
	}
	return w.anyOf([]persona.Fallback{first}, claim, 0)
}

// fallbackPatience is the longest that a provider may ask to be waited for
// where another can take its place.
const fallbackPatience = 10 * time.Second

// anyOf combines several models into one that fails over between them; it
// starts with the one at index at.
func (w *Worker) anyOf(names []persona.Fallback, claim *deckhandv1.ClaimTaskResponse, at int) (model.Model, error) {
	cfg := failover.Config{Breakers: w.breakers, At: at}
	retries := model.RetryConfig{OnRetry: w.noteRetry(claim.GetTask().GetId())}
	if len(names) > 1 {
		retries.MaxRetryAfter = fallbackPatience
	}
	for _, n := range names {
		known, ok := provider.Of(n.Provider)
		if !ok || known.Format == provider.Script || known.Format.Searches() {
			return nil, fault.New(fault.Invalid, "workers cannot run provider %q", n.Provider).
				WithCode(fault.ModelUnavailable).WithFix("use one of %s in the persona", strings.Join(provider.Runnable(), ", "))
		}
		m, err := w.relayed(known, n.Model, claim.GetLease())
		if err != nil {
			return nil, err
		}
		m = w.breakers.Guard(n.Provider, n.Model, pace{counted{m, n.Provider, w.metrics, n.Model, w.cfg.Tracer}, known})
		cfg.Candidates = append(cfg.Candidates, failover.Candidate{Provider: n.Provider, Name: n.Model, Model: model.WithRetries(m, retries)})
	}
	return failover.New(cfg), nil
}

// spokeLast returns the index of the model that wrote the newest turn, or 0 if
// none of them has written one.
func spokeLast(names []persona.Fallback, turns []*deckhandv1.Turn) int {
	if len(turns) == 0 {
		return 0
	}
	last := turns[len(turns)-1]
	at := slices.IndexFunc(names, func(n persona.Fallback) bool {
		return n.Provider == last.GetProvider() && provider.Undated(n.Model) == provider.Undated(last.GetModel())
	})
	if at < 0 {
		at = slices.IndexFunc(names, func(n persona.Fallback) bool { return n.Provider == last.GetProvider() })
	}
	return max(0, at)
}

// relayed makes a model of a provider. The provider's key never comes here: the
// client's base URL is the hub's relay, and its key is the lease.
func (w *Worker) relayed(p provider.Provider, name string, lease *deckhandv1.Lease) (model.Model, error) {
	base := w.client.URL() + "/relay/" + p.Name
	key := fmt.Sprintf("%s:%d:%s", lease.GetTaskId(), lease.GetAttempt(), lease.GetToken())
	switch p.Format {
	case provider.Messages:
		return anthropic.New(anthropic.Config{BaseURL: base, Key: key, Model: name, HTTPClient: w.traced(), StallTimeout: w.cfg.ModelStall})
	case provider.Gemini:
		return gemini.New(gemini.Config{BaseURL: base, Key: key, Model: name, HTTPClient: w.traced(), StallTimeout: w.cfg.ModelStall})
	default:
		return openai.New(openai.Config{Provider: p, BaseURL: base, Key: key, Model: name, HTTPClient: w.traced(), StallTimeout: w.cfg.ModelStall})
	}
}

// traced is the client for the hub's relay, which takes a trace along.
func (w *Worker) traced() *http.Client {
	client := *w.client.HTTPClient()
	client.Transport = traceparent.Transport(client.Transport)
	return &client
}

// noteRetry logs what a model is asked again for.
func (w *Worker) noteRetry(taskID string) func(*model.Error, int, time.Duration) {
	return func(err *model.Error, try int, wait time.Duration) {
		w.cfg.Log.Warn("the model did not answer; trying again", "task_id", taskID, "error", err, "try", try, "wait", wait)
	}
}
