package hub_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub"
	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/nodetest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// newPair is a rig whose node is linked to one hub and whose callers come to
// another.
func newPair(t *testing.T, node nodetest.Config) (r *rig, first, second *hubtest.Hub) {
	t.Helper()
	cfg := hubtest.Config(t)
	hubtest.NewNATS(t).Use(&cfg)
	r = newRigOn(t, hubtest.Start(t, cfg), node)
	first = r.Hub
	second = hubtest.Start(t, hubtest.Beside(t, cfg))
	r.through(second)
	return r, first, second
}

// through has all callers come to that hub.
func (r *rig) through(h *hubtest.Hub) {
	r.t.Helper()
	r.Hub, r.user, r.workers = h, h.Client(r.t, h.AdminToken), h.Client(r.t, h.WorkerToken)
}

// Any replica serves any call; those to a node that another one holds
// are forwarded there.
func TestATaskRunsThroughAHubThatDoesNotHoldItsNode(t *testing.T) {
	t.Parallel()
	r, first, _ := newPair(t, nodetest.Config{Live: func(ctx context.Context, l *nodetest.Live) *nodev1.Exec {
		if strings.Contains(strings.Join(l.Spec.GetArgv(), " "), "sleep") {
			l.Write(nodev1.LogStream_LOG_STREAM_STDOUT, "sleeping\n")
			<-ctx.Done()
			return &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_KILLED}
		}
		if l.Spec.GetPty() != nil {
			return echoing(ctx, l)
		}
		l.Write(nodev1.LogStream_LOG_STREAM_STDOUT, "hello\n")
		return &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_EXITED}
	}})

	// A whole task, its log, and its events as the other hub tells them.
	task := r.submit("walker")
	lease := r.begin(task.GetId(), 1)
	watched := make(chan int, 1)
	go func() {
		n := 0
		for _, err := range first.Client(t, first.AdminToken).Watch(t.Context(), &deckhandv1.WatchRequest{TaskIds: []string{task.GetId()}, Follow: true}) {
			if err == nil {
				n++
			}
		}
		watched <- n
	}()
	r.turn(lease, 1)
	step, err := r.propose(lease, 1, 0, "shell_exec", `{"command":"echo hello"}`)
	require.NoError(t, err)
	done, err := r.execute(lease, step.GetId())
	require.NoError(t, err)
	require.Equal(t, "exit status 0\nhello\n", done.GetObservation())
	step, err = r.propose(lease, 1, 1, "file_write", `{"path":"a.txt","content":"over there"}`)
	require.NoError(t, err)
	done, err = r.execute(lease, step.GetId())
	require.NoError(t, err)
	require.Equal(t, deckhandv1.StepState_STEP_STATE_SUCCEEDED, done.GetState())
	files, err := r.user.Files.ListFiles(t.Context(), &deckhandv1.ListFilesRequest{
		Workspace: &deckhandv1.ListFilesRequest_AgentId{AgentId: "walker"},
	})
	require.NoError(t, err)
	require.Len(t, files.GetFiles(), 1)

	// A command of a step is killed from the hub that does not hold the node.
	step, err = r.propose(lease, 1, 2, "shell_exec", `{"command":"sleep 1000"}`)
	require.NoError(t, err)
	ended := make(chan *deckhandv1.Step, 1)
	go func() {
		s, err := r.execute(lease, step.GetId())
		if err != nil {
			t.Log(err)
		}
		ended <- s
	}()
	require.Eventually(t, func() bool { return r.node.Runs() == 2 }, waittest.Limit(20*time.Second), 10*time.Millisecond)
	_, err = r.user.Tasks.CancelTask(t.Context(), &deckhandv1.CancelTaskRequest{TaskId: task.GetId()})
	require.NoError(t, err)
	<-ended
	require.Eventually(t, func() bool {
		return r.task(task.GetId()).GetState() == deckhandv1.TaskState_TASK_STATE_CANCELLED
	}, waittest.Limit(20*time.Second), 10*time.Millisecond)
	require.EqualValues(t, r.task(task.GetId()).GetEventSeq(), <-watched)

	// A person's command: started, its log streamed, killed.
	exec, err := startExec(t, r.user, onJail("walker", "sleep", "1000"))
	require.NoError(t, err)
	stream, err := r.user.NodeExecs.ReadNodeLog(t.Context(), &deckhandv1.ReadNodeLogRequest{ExecId: exec.GetId(), Follow: true})
	require.NoError(t, err)
	require.True(t, stream.Receive())
	require.Equal(t, "sleeping\n", string(stream.Msg().GetData()))
	killed, err := r.user.NodeExecs.KillNodeExec(t.Context(), &deckhandv1.KillNodeExecRequest{ExecId: exec.GetId()})
	require.NoError(t, err)
	require.Equal(t, "killed", killed.GetExec().GetEndReason())
	require.False(t, stream.Receive())
	require.NoError(t, stream.Err())
	require.NoError(t, stream.Close())

	// A terminal, both ways.
	term, err := r.user.Terminals.OpenTerminal(t.Context())
	require.NoError(t, err)
	require.NoError(t, term.Send(&deckhandv1.OpenTerminalRequest{Message: &deckhandv1.OpenTerminalRequest_Open_{Open: &deckhandv1.OpenTerminalRequest_Open{
		NodeId: "sim", Target: &deckhandv1.OpenTerminalRequest_Open_AgentId{AgentId: "walker"}, Size: &deckhandv1.TerminalSize{Rows: 24, Cols: 80},
	}}}))
	require.NoError(t, term.Send(&deckhandv1.OpenTerminalRequest{Message: &deckhandv1.OpenTerminalRequest_Input{Input: []byte("ahoy")}}))
	shown := ""
	for !strings.Contains(shown, "<ahoy>") {
		res, err := term.Receive()
		require.NoError(t, err)
		shown += string(res.GetOutput())
	}
	require.NoError(t, term.CloseRequest())
	require.NoError(t, term.CloseResponse())

	// Revoking it there drops the link here, at once.
	_, err = r.user.Nodes.RevokeNode(t.Context(), &deckhandv1.RevokeNodeRequest{NodeId: "sim"})
	require.NoError(t, err)
	_, err = first.Client(t, first.AdminToken).Files.ListFiles(t.Context(), &deckhandv1.ListFilesRequest{
		Workspace: &deckhandv1.ListFilesRequest_AgentId{AgentId: "walker"},
	})
	require.Equal(t, fault.NodeUnavailable, fault.As(err).Code, "%v", err)
}

// A rolling restart: each hub in turn goes and comes back at its address while
// events are written; who watches with a cursor sees each once.
func TestARollingRestartLosesNoEvent(t *testing.T) {
	t.Parallel()
	cfgs := make([]hub.Config, 2)
	hubs := make([]*hubtest.Hub, 2)
	cfgs[0] = hubtest.Config(t)
	hubtest.NewNATS(t).Use(&cfgs[0])
	hubs[0] = hubtest.Start(t, cfgs[0])
	cfgs[1] = hubtest.Beside(t, cfgs[0])
	hubs[1] = hubtest.Start(t, cfgs[1])
	for i := range cfgs {
		cfgs[i].Listen, cfgs[i].EdgeListen = strings.TrimPrefix(hubs[i].URL(), "http://"), hubs[i].EdgeAddress()
	}
	r := newRigOn(t, hubs[0], nodetest.Config{})
	clients := []*sdk.Client{hubs[0].Client(t, hubs[0].AdminToken), hubs[1].Client(t, hubs[1].AdminToken)}
	workers := []*sdk.Client{hubs[0].Client(t, hubs[0].WorkerToken), hubs[1].Client(t, hubs[1].WorkerToken)}

	task := r.submit("walker")
	lease := r.begin(task.GetId(), 1)
	type seen struct {
		seqs []int64
		err  error
	}
	watches := make(chan seen, 4)
	for i := range 4 {
		go func() {
			var s seen
			for res, err := range clients[i%2].Watch(t.Context(), &deckhandv1.WatchRequest{TaskIds: []string{task.GetId()}, Follow: true}) {
				if err != nil {
					s.err = err
					break
				}
				s.seqs = append(s.seqs, res.GetEvent().GetSeq())
			}
			watches <- s
		}()
	}
	// As a worker does, each batch goes to whichever hub takes it.
	stop, written := make(chan struct{}), make(chan struct{})
	go func() {
		for n := 1; ; n++ {
			for try := n; ; try++ {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				_, err := workers[try%2].Workers.RecordEvents(ctx, &deckhandv1.RecordEventsRequest{
					Lease: lease, Batch: int64(n), Events: []*deckhandv1.EventDraft{{Type: "progress_update"}},
				})
				cancel()
				if err == nil {
					break
				}
				if t.Context().Err() != nil {
					return
				}
			}
			select {
			case <-stop:
				if n > 20 { // however slow the machine was meanwhile
					close(written)
					return
				}
			default:
			}
		}
	}()
	for range 2 {
		for i := range hubs {
			hubs[i].Stop()
			hubs[i] = hubtest.Start(t, cfgs[i])
		}
	}
	close(stop)
	<-written
	r.through(hubs[1])
	r.finish(lease)
	last := r.task(task.GetId()).GetEventSeq()
	for range 4 {
		s := <-watches
		require.NoError(t, s.err)
		require.Len(t, s.seqs, int(last))
		for i, seq := range s.seqs {
			require.EqualValues(t, i+1, seq, "in order, no gap, no repeat")
		}
	}
}

// Two hubs admit and claim at once: no task starts twice.
func TestTwoHubsAdmitAtOnce(t *testing.T) {
	t.Parallel()
	r, first, second := newPair(t, nodetest.Config{})
	r.apply("many", strings.Replace(scripted("many"), "tools:", "workspace: {scope: task}\ntools:", 1))
	users := []*sdk.Client{first.Client(t, first.AdminToken), second.Client(t, second.AdminToken)}
	workers := []*sdk.Client{first.Client(t, first.WorkerToken), second.Client(t, second.WorkerToken)}
	const n = 40
	ids := make([]string, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			res, err := users[i%2].Tasks.SubmitTask(t.Context(), &deckhandv1.SubmitTaskRequest{AgentId: "many", Goal: "x"})
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = res.GetTask().GetId()
		})
	}
	wg.Wait()
	var mu sync.Mutex
	claims := map[string]int{}
	for _, id := range ids {
		require.Eventually(t, func() bool { return strings.HasPrefix(r.task(id).GetReason(), "admitted") }, waittest.Limit(30*time.Second), 10*time.Millisecond)
		for i := range 4 {
			wg.Go(func() {
				res, err := workers[i%2].Workers.ClaimTask(t.Context(), &deckhandv1.ClaimTaskRequest{WorkerId: r.worker, TaskId: id, Attempt: 1})
				if err != nil {
					t.Error(err)
				} else if res.GetClaimed() {
					mu.Lock()
					claims[id]++
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	require.Len(t, claims, n)
	for id, times := range claims {
		require.Equal(t, 1, times, id)
	}
}

// A person's command whose hub has gone is followed by the hub that leads,
// which writes down how it ended.
func TestACommandOfAHubThatIsGoneIsFollowedByAnother(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	r, first, second := newPair(t, nodetest.Config{Run: func(_ context.Context, spec *nodev1.ExecSpec) (string, *nodev1.Exec) {
		if spec.GetArgv()[0] == "wait" {
			<-goOn
		}
		return "over\n", &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_EXITED, ExitCode: 7}
	}})
	r.settled("walker")
	exec, err := startExec(t, r.user, onJail("walker", "wait"))
	require.NoError(t, err)
	second.Stop() // the node's link is the other's, and stays
	r.through(first)
	close(goOn)
	conn, err := pgx.Connect(t.Context(), first.DatabaseURL)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(t.Context(), "UPDATE node_execs SET created_at = created_at - interval '1 minute' WHERE id = $1", exec.GetId())
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		res, err := r.user.NodeExecs.GetNodeExec(t.Context(), &deckhandv1.GetNodeExecRequest{ExecId: exec.GetId()})
		return err == nil && res.GetExec().GetState() == deckhandv1.NodeExecState_NODE_EXEC_STATE_ENDED
	}, time.Minute, 100*time.Millisecond)
	end := ended(t, r.user, exec.GetId())
	require.Equal(t, "exited", end.GetEndReason())
	require.EqualValues(t, 7, end.GetExitCode())
	require.Eventually(t, func() bool { return slices.Contains(r.node.Recorded(), exec.GetId()) }, waittest.Limit(30*time.Second), 20*time.Millisecond,
		"the node is told that it is on record")
}
