package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/node/daemon"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// execEndToEnd measures a command from its proposal to its outcome through the
// hub's API, the step's decision and the node's mTLS link.
func execEndToEnd(ctx context.Context) (_ result, err error) {
	m, err := newMachine(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, m.close()) }()
	p, err := m.peer(ctx)
	if err != nil {
		return nil, err
	}
	s, err := newStack(ctx)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	node, err := daemon.Config{
		DataDir: filepath.Join(m.dir, "daemon"), HubURL: s.hub.URL(), EdgeAddress: s.hub.EdgeAddress(), Containerd: m.containerd.Address(),
		Namespace: m.namespace + "-e2e", MakeJoinToken: s.hub.LocalJoinToken, EndJails: true,
	}.Complete(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.start(ctx, node); err != nil {
		return nil, err
	}
	lease, workers, err := s.runningTask(ctx)
	if err != nil {
		return nil, err
	}
	const n = 200
	calls := int32(0)
	a, b, err := pair(n, func() error {
		calls++
		step, err := workers.Workers.ProposeStep(ctx, &deckhandv1.ProposeStepRequest{
			Lease: lease, Turn: 1, CallIndex: calls, CallId: "c", Tool: "shell_exec", ArgumentsJson: `{"command":"true"}`,
		})
		if err != nil {
			return err
		}
		done, err := workers.Workers.ExecuteStep(ctx, &deckhandv1.ExecuteStepRequest{
			Lease: lease, StepId: step.GetStep().GetId(),
		})
		if err != nil {
			return err
		}
		if state := done.GetStep().GetState(); state != deckhandv1.StepState_STEP_STATE_SUCCEEDED {
			return fmt.Errorf("the step is %s: %s", state, done.GetStep().GetObservation())
		}
		return nil
	}, func() error { return p.run(ctx, "/bin/bash", "-c", "true") })
	if err != nil {
		return nil, err
	}
	out := compared("ms", percentile(a, 50), percentile(b, 50), containerdExec, n)
	out["p95"], out["peer_p95"] = percentile(a, 95), percentile(b, 95)
	return out, nil
}

// runningTask returns the lease on a task whose jail runs, and a client of the
// worker that holds it.
func (s *stack) runningTask(ctx context.Context) (*deckhandv1.Lease, *sdk.Client, error) {
	token, err := s.hub.WorkerToken()
	if err != nil {
		return nil, nil, err
	}
	workers, err := sdk.New(sdk.Config{URL: s.hub.URL(), Token: token})
	if err != nil {
		return nil, nil, err
	}
	registered, err := workers.Workers.RegisterWorker(ctx, &deckhandv1.RegisterWorkerRequest{Name: "benchmark", Slots: 1})
	if err != nil {
		return nil, nil, err
	}
	if _, err := s.client.Agents.ApplyAgent(ctx, &deckhandv1.ApplyAgentRequest{
		Filename: "shell.md", Script: noopScript,
		Markdown: strings.NewReplacer("name: noop", "name: shell", "[complete_task]", "[shell_exec, complete_task]").Replace(noopPersona),
	}); err != nil {
		return nil, nil, err
	}
	submitted, err := s.client.Tasks.SubmitTask(ctx, &deckhandv1.SubmitTaskRequest{AgentId: "shell"})
	if err != nil {
		return nil, nil, err
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		claimed, err := workers.Workers.ClaimTask(ctx, &deckhandv1.ClaimTaskRequest{
			WorkerId: registered.GetWorkerId(), TaskId: submitted.GetTask().GetId(), Attempt: 1,
		})
		if err != nil {
			return nil, nil, err
		}
		if lease := claimed.GetLease(); claimed.GetClaimed() {
			// The lease lasts as long as the benchmark: it is renewed beside it.
			go keep(ctx, workers, registered.GetWorkerId(), lease)
			_, err := workers.Workers.StartTask(ctx, &deckhandv1.StartTaskRequest{Lease: lease})
			return lease, workers, err
		}
		if time.Now().After(deadline) {
			return nil, nil, errors.New("the task was not admitted within 30 s")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// keep renews a lease until it is gone.
func keep(ctx context.Context, workers *sdk.Client, workerID string, lease *deckhandv1.Lease) {
	for range time.Tick(5 * time.Second) {
		res, err := workers.Workers.RenewLeases(ctx, &deckhandv1.RenewLeasesRequest{
			WorkerId: workerID, Leases: []*deckhandv1.Lease{lease},
		})
		if err != nil || !res.GetRenewals()[0].GetHeld() && !res.GetRenewals()[0].GetDeferred() {
			return
		}
	}
}

// logSeek measures how long 64 KiB at a random time of a 5 GB log take.
func logSeek(ctx context.Context) (_ result, err error) {
	m, err := newMachine(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, m.close()) }()
	jailID, err := m.jail(ctx)
	if err != nil {
		return nil, err
	}
	const n, size, piece = 200, 5 << 30, 64 << 10
	id := ident.New("step")
	if _, err := m.exec.StartExec(ctx, &nodev1.StartExecRequest{Spec: &nodev1.ExecSpec{
		ExecId: id, JailId: jailID, Timeout: durationpb.New(10 * time.Minute),
		Argv: []string{"/bin/bash", "-c", "yes 'a line of a log, as long as lines of logs are' | head -c " + strconv.Itoa(size)},
	}}); err != nil {
		return nil, err
	}
	var e *nodev1.Exec
	for e.GetState() != nodev1.ExecState_EXEC_STATE_ENDED {
		res, err := m.exec.WaitExec(ctx, &nodev1.WaitExecRequest{ExecId: id, Timeout: durationpb.New(time.Minute)})
		if err != nil {
			return nil, err
		}
		e = res.GetExec()
	}
	from, to := e.GetStartedAt().AsTime(), e.GetEndedAt().AsTime()
	var took []time.Duration
	for range n {
		// Not from the last moment, where less than a piece may be left.
		at := from.Add(time.Duration(rand.Int64N(int64(to.Sub(from)) * 95 / 100))) //nolint:gosec // no secret
		begin := time.Now()
		got, err := m.read(ctx, &nodev1.ReadLogRequest{ExecId: id, Since: timestamppb.New(at), Limit: piece})
		if err != nil {
			return nil, err
		}
		if got != piece {
			return nil, fmt.Errorf("read %d of %d bytes at %s", got, piece, at)
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	return result{"unit": "ms", "ours": percentile(took, 50), "p99": percentile(took, 99), "n": n, "log_gb": 5}, nil
}

// read returns how many bytes a read of a log gave.
func (m *nodeRig) read(ctx context.Context, req *nodev1.ReadLogRequest) (int, error) {
	stream, err := m.exec.ReadLog(ctx, req)
	if err != nil {
		return 0, err
	}
	n := 0
	for {
		piece, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return n, nil
			}
			return n, err
		}
		n += len(piece.GetData())
	}
}

// nodeIdle measures the resident memory of a daemon with 20 idle jails, and of
// their inits.
func nodeIdle(ctx context.Context) (_ result, err error) {
	m, err := newMachine(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, m.close()) }()
	s, err := newStack(ctx)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	const jails = 20
	var inits []float64
	for range jails {
		id, err := m.jail(ctx)
		if err != nil {
			return nil, err
		}
		if _, err := m.run(ctx, id, "/usr/bin/true"); err != nil {
			return nil, err
		}
	}
	all, err := m.jails.List(ctx)
	if err != nil {
		return nil, err
	}
	join, err := s.hub.LocalJoinToken(ctx)
	if err != nil {
		return nil, err
	}
	if out, err := osexec.CommandContext(ctx, "make", "-s", "build").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("make build: %w: %s", err, out)
	}
	// A daemon of its own process takes the jails over; ours only looks on.
	if err := m.letGo(); err != nil {
		return nil, err
	}
	cmd := osexec.CommandContext(ctx, "bin/deckhand-node", "--data-dir", filepath.Join(m.dir, "node"), "--hub-url", s.hub.URL(),
		"--containerd", m.containerd.Address(), "--containerd-namespace", m.namespace)
	cmd.Env = append(os.Environ(), "DECKHAND_PRESSURE_MAX_LOAD=off", "DECKHAND_JOIN_TOKEN="+join)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}()
	time.Sleep(20 * time.Second) // for the start to be over, and the link idle
	daemonMB := residentMB(cmd.Process.Pid)
	if daemonMB == 0 {
		return nil, errors.New("the daemon does not run any more, or not yet")
	}
	for _, j := range all {
		inits = append(inits, residentMB(int(j.GetPid())))
	}
	slices.Sort(inits)
	return result{
		"unit": "MB", "ours": daemonMB, "peer": inits[len(inits)/2], "peer_name": "deckhand-init", "n": jails,
	}, nil
}
