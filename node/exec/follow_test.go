package exec_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/exec"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// So many readers may follow logs; one more is told so, whoever only reads is not
// counted, and one that leaves makes room.
func TestReadersThatFollowLogsAreBounded(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	spec := shell(n.ensure(), "echo one; sleep 600")
	n.startExec(spec)
	n.until(spec.GetExecId(), "one\n")
	follow := func() (leave func(), err error) {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		stream, err := n.api.ReadLog(ctx, &nodev1.ReadLogRequest{ExecId: spec.GetExecId(), Follow: true})
		require.NoError(t, err)
		_, err = stream.Recv()
		return cancel, err
	}
	var leave func()
	require.Eventually(t, func() bool { // the reader of until has left
		var err error
		leave, err = follow()
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	var last error
	for opened := 1; last == nil; opened++ {
		require.LessOrEqual(t, opened, exec.MaxFollows, "no bound was reached")
		_, last = follow()
	}
	requireFault(t, last, fault.Exhausted, "256 readers follow logs of this node already")
	require.Equal(t, fault.RateLimited, fault.As(fault.FromGRPC(last)).Code)
	got, err := n.read(&nodev1.ReadLogRequest{ExecId: spec.GetExecId()})
	require.NoError(t, err)
	require.Equal(t, "one\n", got)
	leave()
	require.Eventually(t, func() bool { _, err := follow(); return err == nil }, time.Minute, 10*time.Millisecond)
}
