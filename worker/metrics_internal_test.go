package worker

import (
	"context"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/metricsserver/scrapetest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
)

type answering struct {
	turn *deckhandv1.Turn
	err  error
}

func (a answering) Generate(context.Context, *model.Request, model.Sink) (*deckhandv1.Turn, error) {
	return a.turn, a.err
}

// Model calls are counted by how they ended, and the worker's metrics keep
// Prometheus' rules and are documented.
func TestMetrics(t *testing.T) {
	t.Parallel()
	r := scrapetest.New()
	m := newMetrics(r, 8, func() int { return 2 })
	good := answering{turn: &deckhandv1.Turn{Usage: &deckhandv1.Usage{InputTokens: 100, OutputTokens: 7}}}
	_, err := counted{Model: good, provider: "anthropic", metrics: m}.Generate(t.Context(), nil, nil)
	require.NoError(t, err)
	limited := answering{err: &model.Error{Kind: model.RateLimit}}
	_, err = counted{Model: limited, provider: "anthropic", metrics: m}.Generate(t.Context(), nil, nil)
	require.Error(t, err)
	m.renewed(nil)
	m.renewed(errors.New("unreachable"))
	m.lost.WithLabelValues("outdated").Inc()

	r.Check(t, "deckhand_worker_", "../docs/monitoring.md")
	require.InDelta(t, 1, testutil.ToFloat64(m.calls.WithLabelValues("anthropic", "ok")), 0)
	require.InDelta(t, 1, testutil.ToFloat64(m.calls.WithLabelValues("anthropic", "rate_limited")), 0)
	require.InDelta(t, 7, testutil.ToFloat64(m.tokens.WithLabelValues("anthropic", "output")), 0)
}
