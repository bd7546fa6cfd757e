package failover_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
	"github.com/deckhand-sh/deckhand/worker/model/failover"
)

// said is a model that answers what it is told to, and counts.
type said struct {
	provider string

	mu    sync.Mutex
	err   error
	asked int
}

func (s *said) Generate(context.Context, *model.Request, model.Sink) (*deckhandv1.Turn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.err != nil {
		return nil, s.err
	}
	return &deckhandv1.Turn{Provider: s.provider}, nil
}

func (s *said) says(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *said) times() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.asked
	s.asked = 0
	return n
}

func broken(kind model.ErrorKind) *model.Error {
	return &model.Error{Kind: kind, Provider: "p", Message: "no"}
}

// rig is a task with three models.
type rig struct {
	*failover.Model

	breakers *failover.Breakers
	of       [3]*said
	told     []model.Failover
}

func newRig(at int) *rig {
	r := &rig{breakers: failover.NewBreakers(failover.BreakerConfig{Failures: 3})}
	cfg := failover.Config{Breakers: r.breakers, At: at}
	for i, name := range []string{"first", "second", "third"} {
		r.of[i] = &said{provider: name}
		cfg.Candidates = append(cfg.Candidates, failover.Candidate{Provider: name, Name: "m", Model: r.breakers.Guard(name, "m", r.of[i])})
	}
	r.Model = failover.New(cfg)
	return r
}

func (r *rig) ask(t *testing.T) (string, error) {
	t.Helper()
	turn, err := r.Generate(t.Context(), &model.Request{FailedOver: func(f model.Failover) { r.told = append(r.told, f) }}, nil)
	return turn.GetProvider(), err
}

// A provider that does not answer is failed over to the next one,
// and whoever took over keeps the task.
func TestTheNextModelGoesOnAndKeepsTheTask(t *testing.T) {
	t.Parallel()
	for _, kind := range []model.ErrorKind{model.Unavailable, model.Overloaded, model.RateLimit, model.Quota} {
		r := newRig(0)
		r.of[0].says(broken(kind))
		r.of[1].says(broken(model.NoCredential)) // nobody has connected it
		who, err := r.ask(t)
		require.NoError(t, err)
		require.Equal(t, "third", who)
		require.Len(t, r.told, 2)
		require.Equal(t, "first", r.told[0].FromProvider)
		require.Equal(t, "third", r.told[1].ToProvider)
		require.Contains(t, r.told[0].Reason, kind.String())
		r.of[0].says(nil)
		who, err = r.ask(t)
		require.NoError(t, err)
		require.Equal(t, "third", who, "it is sticky")
		require.Len(t, r.told, 2)
		r.of[2].says(broken(kind))
		who, err = r.ask(t)
		require.NoError(t, err)
		require.Equal(t, "first", who, "and goes round")
	}
	who, err := newRig(1).ask(t)
	require.NoError(t, err)
	require.Equal(t, "second", who, "a later attempt goes on with whoever answered last")
}

// What another model would do no better, or a person must mend, is no reason.
func TestOtherErrorsStay(t *testing.T) {
	t.Parallel()
	hub := broken(model.Unavailable)
	hub.Hub = true
	for _, err := range []error{broken(model.Auth), broken(model.NoCredential), broken(model.ContextTooLong), broken(model.Refused), broken(model.Budget), hub, errors.New("else")} {
		r := newRig(0)
		r.of[0].says(err)
		for range 5 {
			_, got := r.ask(t)
			require.Equal(t, err, got)
		}
		require.Zero(t, r.of[1].times())
		require.Equal(t, 5, r.of[0].times(), "and opens no breaker")
	}
	r := newRig(0)
	first := broken(model.Unavailable)
	r.of[0].says(first)
	r.of[1].says(broken(model.Invalid))
	r.of[2].says(broken(model.Overloaded))
	_, err := r.ask(t)
	require.Equal(t, first, err, "where nobody answers, people hear of the first")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = r.Generate(ctx, &model.Request{}, nil)
	require.ErrorIs(t, err, context.Canceled)
}

// The breaker opens after failures in a row, lets one call look after a while,
// and closes when that is answered.
func TestABreakerOpensHalfOpensAndCloses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type change struct {
			provider string
			open     bool
		}
		var changes []change
		b := failover.NewBreakers(failover.BreakerConfig{Changed: func(provider, _ string, open bool) {
			changes = append(changes, change{provider, open})
		}})
		inner := &said{}
		m := b.Guard("p", "m", inner)
		ask := func() error { _, err := m.Generate(t.Context(), &model.Request{}, nil); return err }
		inner.says(broken(model.Unavailable))
		for range 4 {
			require.Error(t, ask())
		}
		inner.says(broken(model.RateLimit))
		require.Error(t, ask(), "an answer: it begins anew")
		inner.says(broken(model.Overloaded))
		for range 5 {
			require.Error(t, ask())
		}
		inner.times()
		time.Sleep(10 * time.Second)
		e := model.AsError(ask())
		require.Equal(t, 20*time.Second, e.RetryAfter)
		require.True(t, e.Retryable())
		require.True(t, b.Open("p", "m"))
		require.False(t, b.Open("p", "another"), "each model has its own")
		require.Zero(t, inner.times(), "it is left alone")
		time.Sleep(21 * time.Second)
		require.False(t, b.Open("p", "m"))
		require.Error(t, ask())
		require.Equal(t, 1, inner.times())
		require.True(t, b.Open("p", "m"), "it did not answer yet")
		time.Sleep(31 * time.Second)
		inner.says(nil)
		require.NoError(t, ask())
		require.Equal(t, []change{{"p", true}, {"p", true}, {"p", false}}, changes)
	})
}

// A model that others found failing is not even asked, unless nobody else is
// there.
func TestAnOpenBreakerIsPassedBy(t *testing.T) {
	t.Parallel()
	r := newRig(0)
	trip := func(i int) {
		r.of[i].says(broken(model.Unavailable))
		m := r.breakers.Guard([]string{"first", "second", "third"}[i], "m", r.of[i])
		for range 3 {
			_, err := m.Generate(t.Context(), &model.Request{}, nil)
			require.Error(t, err)
		}
		r.of[i].times()
	}
	trip(0)
	who, err := r.ask(t)
	require.NoError(t, err)
	require.Equal(t, "second", who)
	require.Zero(t, r.of[0].times())
	require.Contains(t, r.told[0].Reason, "left alone")
	trip(1)
	trip(2)
	_, err = r.ask(t)
	require.Positive(t, model.AsError(err).RetryAfter, "with nobody to go on with, it waits for the one it had: %v", err)
}
