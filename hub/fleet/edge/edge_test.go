package edge_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/deckhand-sh/deckhand/hub/fleet/edge"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/logging"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/egress/process"
	"github.com/deckhand-sh/deckhand/node/link"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

func TestMain(m *testing.M) {
	process.RunIfAsked()
	goleak.VerifyTestMain(m)
}

// execs is a node's exec service, as small as these tests need it.
type execs struct {
	nodev1.UnimplementedExecServiceServer

	waiting chan struct{} // receives each WaitExec and SearchLog that has begun
	release chan struct{} // lets them answer
}

func newExecs() *execs {
	return &execs{waiting: make(chan struct{}, 1), release: make(chan struct{})}
}

func (e *execs) register(r grpc.ServiceRegistrar) { nodev1.RegisterExecServiceServer(r, e) }

// StartExec returns the correlation id it was called with as the jail's id.
func (e *execs) StartExec(ctx context.Context, req *nodev1.StartExecRequest) (*nodev1.StartExecResponse, error) {
	return &nodev1.StartExecResponse{Exec: &nodev1.Exec{
		ExecId: req.GetSpec().GetExecId(), JailId: logging.Correlation(ctx), LogBytes: int64(len(req.GetSpec().GetStdin())),
	}}, nil
}

func (e *execs) GetExec(_ context.Context, req *nodev1.GetExecRequest) (*nodev1.GetExecResponse, error) {
	return nil, fault.New(fault.NotFound, "exec %s is not known", req.GetExecId()).WithObject(req.GetExecId())
}

func (e *execs) WaitExec(ctx context.Context, req *nodev1.WaitExecRequest) (*nodev1.WaitExecResponse, error) {
	e.waiting <- struct{}{}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-e.release:
		return &nodev1.WaitExecResponse{Exec: &nodev1.Exec{ExecId: req.GetExecId()}}, nil
	}
}

func (e *execs) SearchLog(ctx context.Context, _ *nodev1.SearchLogRequest) (*nodev1.SearchLogResponse, error) {
	e.waiting <- struct{}{}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-e.release:
		return &nodev1.SearchLogResponse{}, nil
	}
}

func (e *execs) KillExec(context.Context, *nodev1.KillExecRequest) (*nodev1.KillExecResponse, error) {
	return nil, fault.New(fault.Unavailable, "containerd does not answer")
}

func (e *execs) ReadLog(req *nodev1.ReadLogRequest, stream nodev1.ExecService_ReadLogServer) error {
	for i := range int64(3) {
		if err := stream.Send(&nodev1.ReadLogResponse{Offset: req.GetOffset() + i, Data: []byte(logging.Correlation(stream.Context()))}); err != nil {
			return err
		}
	}
	return fault.New(fault.Precondition, "the log ends here").WithCode(fault.ToolFailed)
}

// Work reaches the node over the link that the node dialled.
func TestHubCallsTheNodeOverTheLinkThatTheNodeDialled(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	id := h.enrol()
	_, err := h.Local(id.NodeID())
	require.Equal(t, fault.NodeUnavailable, fault.As(err).Code)
	require.True(t, fault.Is(err, fault.Unavailable))
	require.Contains(t, err.Error(), "check that deckhand-node runs")

	h.start(id, newExecs().register)
	link := h.connected(id)
	require.Equal(t, []string{id.NodeID()}, h.Connected())
	require.Equal(t, "org_1", link.OrgID())
	require.Equal(t, int64(1), link.Epoch())
	require.Equal(t, []string{"runc"}, link.Hello().GetRuntimes())
	h.store.change(id.NodeID(), func(row *nodeRow) { require.Equal(t, "test", row.hello.GetVersion()) })

	// The correlation id travels with the call.
	ctx := logging.WithCorrelation(t.Context(), "corr-1")
	started, err := link.Exec().StartExec(ctx, &nodev1.StartExecRequest{Spec: &nodev1.ExecSpec{
		ExecId: "step_1", JailId: "jail_1", Argv: []string{"true"}, Stdin: make([]byte, 1<<20),
	}})
	require.NoError(t, err)
	require.Equal(t, "corr-1", started.GetExec().GetJailId())
	require.Equal(t, int64(1<<20), started.GetExec().GetLogBytes())

	stream, err := link.Exec().ReadLog(ctx, &nodev1.ReadLogRequest{ExecId: "step_1", Offset: 5})
	require.NoError(t, err)
	for i := range int64(3) {
		part, err := stream.Recv()
		require.NoError(t, err)
		require.Equal(t, 5+i, part.GetOffset())
		require.Equal(t, "corr-1", string(part.GetData()))
	}
	_, err = stream.Recv()
	require.NotErrorIs(t, err, io.EOF)
	require.Equal(t, fault.ToolFailed, fault.As(err).Code)
}

func TestErrorsOfTheNodeReachTheHubAsTheyWere(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	id := h.enrol()
	h.start(id, newExecs().register)
	link := h.connected(id)

	_, err := link.Exec().GetExec(t.Context(), &nodev1.GetExecRequest{ExecId: "step_9"})
	require.True(t, fault.Is(err, fault.NotFound))
	require.Equal(t, "step_9", fault.As(err).ObjectID)

	// What breaks a rule of the proto is refused, and the field is named.
	_, err = link.Exec().StartExec(t.Context(), &nodev1.StartExecRequest{Spec: &nodev1.ExecSpec{ExecId: "step_1", JailId: "jail_1"}})
	require.True(t, fault.Is(err, fault.Invalid))
	require.ErrorContains(t, err, "spec.argv")
	stream, err := link.Exec().ReadLog(t.Context(), &nodev1.ReadLogRequest{ExecId: "step_1", Offset: -1})
	require.NoError(t, err)
	_, err = stream.Recv()
	require.True(t, fault.Is(err, fault.Invalid))
	require.ErrorContains(t, err, "offset")

	// A node that cannot do what was asked is no lost link.
	_, err = link.Exec().KillExec(t.Context(), &nodev1.KillExecRequest{ExecId: "step_1"})
	require.Equal(t, "containerd does not answer", fault.As(err).Message)
	// Nor is a service that it does not have.
	_, err = link.Files().ListFiles(t.Context(), &nodev1.ListFilesRequest{JailId: "jail_1"})
	require.NotEqual(t, fault.NodeUnavailable, fault.As(err).Code)
}

func TestACutConnectionIsReplacedByASessionOfAHigherEpoch(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	id := h.enrol()
	services := newExecs()
	h.start(id, services.register)
	before := h.connected(id)
	failed := make(chan error, 1)
	go func() {
		_, err := before.Exec().WaitExec(t.Context(), &nodev1.WaitExecRequest{ExecId: "step_1"})
		failed <- err
	}()
	within(t, services.waiting, "the call to begin")

	h.tap.cut()
	err := within(t, failed, "the call to fail")
	require.True(t, fault.Is(err, fault.Unavailable), err)
	require.Equal(t, fault.NodeUnavailable, fault.As(err).Code)
	// The hub may see the new connection before it sees that the old one is gone; then it
	// replaces it, and reports no change.
	h.log.wait(t, "node connected", "epoch=2")
	after, err := h.Local(id.NodeID())
	require.NoError(t, err)
	require.Greater(t, after.Epoch(), before.Epoch())
	within(t, before.Done(), "the old link to end")
	require.Error(t, before.Err())
	_, err = before.Exec().GetExec(t.Context(), &nodev1.GetExecRequest{ExecId: "step_1"})
	require.Equal(t, fault.NodeUnavailable, fault.As(err).Code)
	require.Eventually(t, func() bool {
		_, err = after.Exec().StartExec(t.Context(), &nodev1.StartExecRequest{
			Spec: &nodev1.ExecSpec{ExecId: "step_2", JailId: "jail_1", Argv: []string{"true"}},
		})
		return !fault.Is(err, fault.Unavailable) // the node may not have heard yet that it is connected
	}, waittest.Limit(10*time.Second), 5*time.Millisecond)
	require.NoError(t, err)
}

func TestAnOlderEpochIsRefusedByTheNode(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	id := h.enrol()
	require.NoError(t, id.AdvanceEpoch(100))
	n := h.start(id, nil)
	n.log.wait(t, "no link to the hub", "refuses the older epoch")
	require.Empty(t, h.Connected())
	h.log.wait(t, "refused a connection", "refuses the older epoch")

	h.store.change(id.NodeID(), func(row *nodeRow) { row.epoch = 100 })
	require.Greater(t, h.connected(id).Epoch(), int64(100))
}

// Revoking a node drops its link at once, and it does not come back.
func TestARevokedNodeIsDroppedAndRefused(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	id := h.enrol()
	n := h.start(id, newExecs().register)
	link := h.connected(id)
	h.store.change(id.NodeID(), func(row *nodeRow) { row.revoked = true })
	h.Drop(id.NodeID(), "node "+id.NodeID()+" was revoked")

	within(t, link.Done(), "the link to end")
	_, err := link.Exec().StartExec(t.Context(), &nodev1.StartExecRequest{
		Spec: &nodev1.ExecSpec{ExecId: "step_1", JailId: "jail_1", Argv: []string{"true"}},
	})
	require.Equal(t, fault.NodeUnavailable, fault.As(err).Code)
	h.disconnected(id)
	n.log.wait(t, "the hub ended the link", "was revoked")
	h.log.wait(t, "refused a connection", "was revoked")
	require.Empty(t, h.Connected())
}

// A node whose Hello the hub refuses is linked for a moment, and never accepted.
func TestANodeLearnsThatTheHubHasAcceptedIt(t *testing.T) {
	t.Parallel()
	h := newHub(t, func(cfg *edge.Config) { cfg.HeartbeatInterval = 50 * time.Millisecond })
	id := h.enrol()
	h.store.change(id.NodeID(), func(row *nodeRow) { row.unwelcome = true })
	accepted := make(chan struct{}, 10)
	n := h.startWith(id, func(cfg *link.Config) { cfg.OnAccepted = func() { accepted <- struct{}{} } })
	for range 3 {
		n.log.wait(t, "linked to the hub")
		n.log.wait(t, "does not understand Hello")
	}
	require.Empty(t, accepted)
	h.store.change(id.NodeID(), func(row *nodeRow) { row.unwelcome = false })
	h.connected(id)
	within(t, accepted, "the node to be accepted")
}

func TestAReplicaLearnsOfARevocationByItsNextTouch(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	id := h.enrol()
	h.start(id, nil)
	link := h.connected(id)
	h.store.change(id.NodeID(), func(row *nodeRow) { row.revoked = true })
	within(t, link.Done(), "the link to end")
	require.ErrorContains(t, link.Err(), "was revoked")
}

func TestASessionOnAnotherReplicaEndsThisOne(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	id := h.enrol()
	h.start(id, nil)
	link := h.connected(id)
	h.store.change(id.NodeID(), func(row *nodeRow) { row.epoch = 7 })
	within(t, link.Done(), "the link to end")
	require.ErrorContains(t, link.Err(), "newer session")
	h.disconnected(id)
	require.Greater(t, h.connected(id).Epoch(), int64(7))
}

func TestANewerSessionOfTheSameNodeReplacesTheOlder(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	id := h.enrol()
	first := h.start(id, nil)
	older := h.connected(id)
	h.start(id, nil)
	within(t, older.Done(), "the older link to end")
	h.log.wait(t, "a newer session of the node replaces the older one", "older_remote=127.0.0.1:", "newer_remote=127.0.0.1:")
	first.log.wait(t, "the hub ended the link", "newer session")
	require.Equal(t, []string{id.NodeID()}, h.Connected())
}

func TestTheEdgeStopsWithItsLinksAndTheNodeHearsWhy(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	id := h.enrol()
	n := h.start(id, nil)
	link := h.connected(id)
	h.Stop()
	require.ErrorContains(t, link.Err(), "the hub is stopping")
	h.store.change(id.NodeID(), func(row *nodeRow) { require.False(t, row.open) })
	n.log.wait(t, "the hub ended the link: the hub is stopping")
	h.disconnected(id)
	require.NoError(t, h.Err())
}

func TestANodeThatStopsLetsCallsUnderWayFinish(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	id := h.enrol()
	services := newExecs()
	n := h.start(id, services.register)
	link := h.connected(id)
	answered, waited := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := link.Exec().SearchLog(t.Context(), &nodev1.SearchLogRequest{ExecId: "step_1", Pattern: "x"})
		answered <- err
	}()
	within(t, services.waiting, "the call to begin")
	go func() {
		_, err := link.Exec().WaitExec(t.Context(), &nodev1.WaitExecRequest{ExecId: "step_1"})
		waited <- err
	}()
	within(t, services.waiting, "the wait for a command to begin")
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		n.Stop()
	}()
	// New calls are refused once the stop has begun.
	for {
		_, err := link.Exec().StartExec(t.Context(), &nodev1.StartExecRequest{
			Spec: &nodev1.ExecSpec{ExecId: "step_2", JailId: "jail_1", Argv: []string{"true"}},
		})
		if err != nil {
			require.True(t, fault.Is(err, fault.Unavailable), err)
			break
		}
	}
	// The command may run for days: nobody waits for its end here.
	require.True(t, fault.Is(within(t, waited, "the wait to end"), fault.Unavailable))
	close(services.release)
	require.NoError(t, within(t, answered, "the call to finish"))
	within(t, stopped, "the node to stop")
	h.disconnected(id)
}

func TestLinksAreAdmittedAtABoundedRate(t *testing.T) {
	t.Parallel()
	h := newHub(t, func(cfg *edge.Config) {
		cfg.AdmitPerSecond, cfg.AdmitBurst = 1e-6, 1
	})
	first, second := h.enrol(), h.enrol()
	h.start(first, nil)
	h.connected(first)
	h.start(second, nil)
	line := h.log.wait(t, "refused a connection", "not admitted in time")
	require.True(t, strings.Contains(line, second.NodeID()))
	require.Equal(t, []string{first.NodeID()}, h.Connected())
}

func TestNewNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	_, err := edge.New(edge.Config{})
	require.ErrorContains(t, err, "listener, ca, nodes and replica")
}
