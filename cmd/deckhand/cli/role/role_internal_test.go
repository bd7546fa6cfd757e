package role

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
)

type testConfig struct {
	Greeting string        `koanf:"greeting"`
	Secret   config.Secret `koanf:"secret"`
}

type testService struct {
	lifecycle.Runner
	run func(ctx context.Context) error
}

func (s *testService) Start(ctx context.Context) error { return s.Run(ctx, s.run) }

// runTestRole runs a role whose service is the function.
func runTestRole(ctx context.Context, run func(ctx context.Context, cfg testConfig, log hclog.Logger) error, args ...string) (int, string) {
	var stderr bytes.Buffer
	e := &env.Env{Out: &stderr, Err: &stderr}
	cmd := roleCommand(e, role[testConfig]{
		use: "greeter",
		flags: func(flags *pflag.FlagSet) {
			flags.String("greeting", "hello", "")
			flags.String("secret", "", "")
		},
		complete: func(_ context.Context, cfg testConfig, with equipment) (lifecycle.Service, error) {
			if cfg.Greeting == "" {
				return nil, errors.New("greeting is empty with " + cfg.Secret.Reveal() + ": give one")
			}
			if cfg.Greeting == "wrong" {
				return nil, fault.New(fault.Invalid, "greeting is wrong")
			}
			with.redactor.Add(cfg.Secret.Reveal())
			return &testService{run: func(ctx context.Context) error { return run(ctx, cfg, with.log) }}, nil
		},
	})
	cmd.SetArgs(args)
	return e.Report(ctx, cmd.ExecuteContext(ctx)), stderr.String()
}

func TestARoleRunsUntilItIsToldToStop(t *testing.T) {
	defer goleak.VerifyNone(t)
	t.Setenv("DECKHAND_SECRET", "correct-horse-battery")
	ctx, cancel := context.WithCancel(t.Context())
	stopped := false
	code, stderr := runTestRole(ctx, func(ctx context.Context, cfg testConfig, log hclog.Logger) error {
		log.Info("serving", "greeting", cfg.Greeting, "with", cfg.Secret.Reveal())
		cancel()
		<-ctx.Done()
		stopped = true
		return ctx.Err()
	}, "--greeting", "hi")
	require.Equal(t, 0, code, stderr)
	require.True(t, stopped, "the command waits for the end")
	require.Contains(t, stderr, `"greeting":"hi"`)
	require.Contains(t, stderr, `"with":"⟦secret⟧"`)
	require.NotContains(t, stderr, "correct-horse-battery")
}

func TestARoleThatEndsByItselfSaysWhy(t *testing.T) {
	defer goleak.VerifyNone(t)
	code, stderr := runTestRole(t.Context(), func(context.Context, testConfig, hclog.Logger) error {
		return errors.New("lost correct-horse-battery")
	}, "--secret", "correct-horse-battery")
	require.Equal(t, 1, code)
	require.Equal(t, "error: greeter ended: lost ⟦secret⟧\n", stderr)
}

func TestARoleThatCannotBeMadeSaysWhy(t *testing.T) {
	code, stderr := runTestRole(t.Context(), nil, "--greeting", "")
	require.Equal(t, 1, code)
	require.True(t, strings.HasPrefix(stderr, "error: greeting is empty"), stderr)

	// systemd does not restart what cannot start, and restarts everything else.
	code, stderr = runTestRole(t.Context(), nil, "--greeting", "wrong")
	require.Equal(t, env.ExitConfig, code, stderr)
	code, stderr = runTestRole(t.Context(), nil, "--log-level", "loud")
	require.Equal(t, env.ExitConfig, code, stderr)
	code, stderr = runTestRole(t.Context(), func(context.Context, testConfig, hclog.Logger) error {
		return fault.New(fault.Invalid, "a message of the database is invalid")
	})
	require.Equal(t, 1, code, stderr)
}
