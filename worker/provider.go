package worker

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/traceparent"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
	"github.com/deckhand-sh/deckhand/worker/model/anthropic"
	"github.com/deckhand-sh/deckhand/worker/model/script"
)

// Providers are the model families that workers of this release can run.
func Providers() []string { return []string{anthropic.Provider, script.Provider} }

// model makes the model that a task runs with. A provider's key never comes
// here: the client's base URL is the hub's relay, and its key is the lease.
func (w *Worker) model(p *persona.Persona, claim *deckhandv1.ClaimTaskResponse) (model.Model, error) {
	task, lease := claim.GetTask(), claim.GetLease()
	provider, name := task.GetProvider(), task.GetModel()
	if provider == "" {
		provider = p.Provider
	}
	if name == "" {
		name = p.Model
	}
	switch provider {
	case script.Provider:
		s, err := script.Parse(p.Script, []byte(claim.GetScript()))
		if err != nil {
			return nil, fault.New(fault.Invalid, "the script cannot be read: %s", err).
				WithCode(fault.TaskParsing).WithFix("correct %s and apply the persona again", p.Script)
		}
		return counted{s, provider, w.metrics, name, w.cfg.Tracer}, nil
	case anthropic.Provider:
		m, err := anthropic.New(anthropic.Config{
			BaseURL:    w.client.URL() + "/relay/anthropic",
			Key:        fmt.Sprintf("%s:%d:%s", lease.GetTaskId(), lease.GetAttempt(), lease.GetToken()),
			Model:      name,
			HTTPClient: w.traced(),
		})
		if err != nil {
			return nil, err
		}
		return model.WithRetries(counted{m, provider, w.metrics, name, w.cfg.Tracer}, model.RetryConfig{OnRetry: w.noteRetry(task.GetId())}), nil
	default:
		return nil, fault.New(fault.Invalid, "workers cannot run provider %q", provider).
			WithCode(fault.ModelUnavailable).WithFix("use one of %s in the persona", strings.Join(Providers(), ", "))
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
