package env

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Every kind of error has its exit code, and every error one line.
func TestEveryErrorHasItsExitCodeAndOneLine(t *testing.T) {
	t.Parallel()
	fromHub := func(kind fault.Kind) error {
		return fault.New(kind, "it is so").WithFix("do this").WithCode(fault.BudgetLimit)
	}
	for name, c := range map[string]struct {
		err  error
		code int
		line string
	}{
		"none":                        {nil, 0, ""},
		"an ordinary error":           {errors.New("disk full"), 1, "error: disk full\n"},
		"more lines than one":         {errors.New("a\n\x1b[31mb"), 1, "error: a b\n"},
		"internal":                    {fromHub(fault.Internal), 1, "error: it is so: do this (AGENT_010)\n"},
		"invalid":                     {fromHub(fault.Invalid), 2, "error: it is so: do this (AGENT_010)\n"},
		"unauthenticated":             {fromHub(fault.Unauthenticated), 4, "error: it is so: do this (AGENT_010)\n"},
		"denied":                      {fromHub(fault.Denied), 4, "error: it is so: do this (AGENT_010)\n"},
		"not found":                   {fromHub(fault.NotFound), 3, "error: it is so: do this (AGENT_010)\n"},
		"exists":                      {fromHub(fault.Exists), 1, "error: it is so: do this (AGENT_010)\n"},
		"precondition":                {fromHub(fault.Precondition), 1, "error: it is so: do this (AGENT_010)\n"},
		"aborted":                     {fromHub(fault.Aborted), 1, "error: it is so: do this (AGENT_010)\n"},
		"exhausted":                   {fromHub(fault.Exhausted), 1, "error: it is so: do this (AGENT_010)\n"},
		"deadline":                    {fromHub(fault.Deadline), 1, "error: it is so: do this (AGENT_010)\n"},
		"what the hub cannot reach":   {fromHub(fault.Unavailable), 1, "error: it is so: do this (AGENT_010)\n"},
		"wrapped":                     {fmt.Errorf("while: %w", fromHub(fault.NotFound)), 3, "error: it is so: do this (AGENT_010)\n"},
		"joined":                      {errors.Join(fromHub(fault.NotFound), errors.New("x")), 3, "error: it is so: do this (AGENT_010)\n"},
		"an exit code of its own":     {Failed(ExitPending, fault.New(fault.Deadline, "not yet")), 8, "error: not yet\n"},
		"a hub that does not answer":  {connect.NewError(connect.CodeUnavailable, errors.New("refused")), 5, "error: cannot reach the hub at http://h (refused): start one on this machine with `deckhand up`, or name yours with --hub URL\n"},
		"something that is no hub":    {fault.FromConnect(connect.NewError(connect.CodeUnimplemented, errors.New("404"))), 5, "error: what answers at http://h is not a Deckhand hub of this version (404): check --hub, and compare versions with `deckhand version`\n"},
		"a proxy that wants a log-in": {connect.NewError(connect.CodeUnauthenticated, errors.New("401")), 4, "error: 401: something on the way to the hub refuses: check --hub and --token\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stderr bytes.Buffer
			e := &Env{Err: &stderr, hubURL: "http://h"}
			require.Equal(t, c.code, e.Report(t.Context(), c.err))
			require.Equal(t, c.line, stderr.String())
		})
	}
}

func TestOnlyAnInterruptedRunIsInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	e := &Env{Err: &bytes.Buffer{}}
	require.Equal(t, 1, e.Report(ctx, fault.New(fault.Canceled, "the hub cancelled it")))
	cancel()
	require.Equal(t, 130, e.Report(ctx, fault.New(fault.Canceled, "the call was cancelled")))
	require.Equal(t, 130, e.Report(ctx, fmt.Errorf("read: %w", context.Canceled)))
	require.Equal(t, 1, e.Report(ctx, errors.New("disk full")))
}
