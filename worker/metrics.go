package worker

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"

	"github.com/deckhand-sh/deckhand/internal/tracing"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
)

// metrics count what a worker does, for Prometheus.
type metrics struct {
	calls, tokens *prometheus.CounterVec
	duration      *prometheus.HistogramVec
	renewals      *prometheus.CounterVec
	lost          *prometheus.CounterVec
	open          *prometheus.GaugeVec
}

// callSeconds are the bounds of a model call's duration.
var callSeconds = []float64{0.1, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600}

func newMetrics(r prometheus.Registerer, slots int, running func() int) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "deckhand_worker_" + name, Help: help}, labels)
		r.MustRegister(c)
		return c
	}
	m := &metrics{
		calls:    counter("model_calls_total", "Calls of models, repeated ones as well, by outcome.", "provider", "outcome"),
		tokens:   counter("model_tokens_total", "Tokens of models' answers: input, output, cache_read, cache_write.", "provider", "kind"),
		renewals: counter("lease_renewals_total", "Calls that renew leases, by outcome.", "outcome"),
		lost:     counter("leases_lost_total", "Leases that ended under a task: gone at the hub, or outdated here.", "cause"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "deckhand_worker_model_call_duration_seconds", Help: "Time a model took to answer.", Buckets: callSeconds,
		}, []string{"provider"}),
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "deckhand_worker_model_breaker_open", Help: "1 while a model is left alone since it does not answer.",
		}, []string{"provider", "model"}),
	}
	r.MustRegister(m.duration, m.open,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "deckhand_worker_slots", Help: "Tasks that may run at once."},
			func() float64 { return float64(slots) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "deckhand_worker_tasks_running", Help: "Tasks that run."},
			func() float64 { return float64(running()) }))
	return m
}

// renewed counts one renewal.
func (m *metrics) renewed(err error) {
	outcome := "ok"
	if err != nil {
		outcome = "error"
	}
	m.renewals.WithLabelValues(outcome).Inc()
}

// breaker notes that a model is left alone, or asked again.
func (m *metrics) breaker(provider, of string, open bool) {
	value := 0.0
	if open {
		value = 1
	}
	m.open.WithLabelValues(provider, of).Set(value)
}

// counted is a model whose calls are counted. It sits below the retries: each
// try is a call.
type counted struct {
	model.Model

	provider string // one of Providers
	metrics  *metrics
	// name is the model's, for its spans, which tracer makes.
	name   string
	tracer *tracing.Tracer
}

// Generate implements model.Model.
func (c counted) Generate(ctx context.Context, req *model.Request, sink model.Sink) (*deckhandv1.Turn, error) {
	began := time.Now()
	ctx, ended := c.tracer.Span(ctx, "chat "+c.name, attribute.String("gen_ai.operation.name", "chat"),
		attribute.String("gen_ai.provider.name", c.provider), attribute.String("gen_ai.request.model", c.name))
	turn, err := c.Model.Generate(ctx, req, sink)
	ended(err, attribute.Int64("gen_ai.usage.input_tokens", turn.GetUsage().GetInputTokens()),
		attribute.Int64("gen_ai.usage.output_tokens", turn.GetUsage().GetOutputTokens()))
	c.metrics.calls.WithLabelValues(c.provider, callOutcome(ctx, err)).Inc()
	c.metrics.duration.WithLabelValues(c.provider).Observe(time.Since(began).Seconds())
	usage := turn.GetUsage()
	for kind, n := range map[string]int64{
		"input": usage.GetInputTokens(), "output": usage.GetOutputTokens(),
		"cache_read": usage.GetCacheReadTokens(), "cache_write": usage.GetCacheWriteTokens(),
	} {
		c.metrics.tokens.WithLabelValues(c.provider, kind).Add(float64(max(0, n)))
	}
	return turn, err
}

// callOutcome returns how a model call ended as a label.
func callOutcome(ctx context.Context, err error) string {
	switch e := model.AsError(err); {
	case err == nil:
		return "ok"
	case ctx.Err() != nil:
		return "cancelled"
	case e != nil:
		return e.Kind.Label()
	}
	return "error"
}
