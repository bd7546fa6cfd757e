package edge_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/link"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// held streams a piece and then waits for its caller to leave.
type held struct {
	nodev1.UnimplementedExecServiceServer

	now, most atomic.Int64
}

func (h *held) ReadLog(_ *nodev1.ReadLogRequest, stream nodev1.ExecService_ReadLogServer) error {
	n := h.now.Add(1)
	for most := h.most.Load(); n > most && !h.most.CompareAndSwap(most, n); most = h.most.Load() {
	}
	defer h.now.Add(-1)
	if err := stream.Send(&nodev1.ReadLogResponse{}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return stream.Context().Err()
}

// A node serves so many calls of its hub at once, and what comes above waits in
// the hub until one has ended. The session is one of them.
func TestANodeServesSoManyCallsAtOnce(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	id, service := h.enrol(), &held{}
	h.startWith(id, func(cfg *link.Config) {
		cfg.MaxCalls = 4
		cfg.Services = func(r grpc.ServiceRegistrar) { nodev1.RegisterExecServiceServer(r, service) }
	})
	exec := h.connected(id).Exec()
	var callers sync.WaitGroup
	full := make(chan struct{})
	var served atomic.Int64
	for range 20 {
		callers.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			stream, err := exec.ReadLog(ctx, &nodev1.ReadLogRequest{ExecId: "step_1"})
			if err == nil {
				_, err = stream.Recv()
			}
			if err != nil {
				t.Error(err)
				return
			}
			if served.Add(1) == 3 {
				close(full)
			}
			<-full // the first three stay until all of them are there
		})
	}
	callers.Wait()
	require.EqualValues(t, 20, served.Load())
	require.LessOrEqual(t, service.most.Load(), int64(3))
}

// A node that stops waits for calls that end by themselves, and for no reader.
func TestANodeThatStopsEndsItsReaders(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	id, service := h.enrol(), &held{}
	n := h.startWith(id, func(cfg *link.Config) {
		cfg.DrainTimeout = time.Hour
		cfg.Services = func(r grpc.ServiceRegistrar) { nodev1.RegisterExecServiceServer(r, service) }
	})
	stream, err := h.connected(id).Exec().ReadLog(t.Context(), &nodev1.ReadLogRequest{ExecId: "step_1"})
	require.NoError(t, err)
	_, err = stream.Recv()
	require.NoError(t, err)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		n.Stop()
	}()
	within(t, stopped, "the node to stop")
	_, err = stream.Recv()
	require.True(t, fault.Is(fault.FromGRPC(err), fault.Unavailable), err)
}
