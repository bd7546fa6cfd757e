package worker_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker"
	"github.com/deckhand-sh/deckhand/worker/hubtest"
	"github.com/deckhand-sh/deckhand/worker/model/anthropic/anthropictest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	succeeded = deckhandv1.TaskState_TASK_STATE_SUCCEEDED
	failed    = deckhandv1.TaskState_TASK_STATE_FAILED
	queued    = deckhandv1.TaskState_TASK_STATE_QUEUED
	running   = deckhandv1.TaskState_TASK_STATE_RUNNING
)

const scripted = `---
name: tester
description: Tests
provider: script
script: s.yaml
tools: [shell_exec, complete_task]
limits: {iterations: 10}
---
Test.
`

const twoTurns = `
turns:
  - calls: [{tool: shell_exec, arguments: {command: work}}]
  - calls: [{tool: complete_task, arguments: {summary: finished}}]
`

// start runs a worker until the test ends.
func start(t *testing.T, hub *hubtest.Hub, change func(*worker.Config)) *worker.Worker {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	cfg := worker.Config{HubURL: hub.URL, Token: config.Secret(hubtest.Token), Slots: 2, HTTPClient: &http.Client{Transport: transport}}
	if change != nil {
		change(&cfg)
	}
	w, err := cfg.Complete(t.Context())
	require.NoError(t, err)
	require.NoError(t, w.Start(t.Context()))
	t.Cleanup(w.Stop)
	return w
}

func submit(t *testing.T, hub *hubtest.Hub, id, script string) {
	t.Helper()
	hub.Submit(hubtest.Task{
		Task:     &deckhandv1.Task{Id: id, AgentName: "tester", Goal: "g", CreatedAt: timestamppb.Now(), CorrelationId: "corr"},
		Markdown: scripted, Script: script, Tools: hubtest.Tools(t),
	})
}

func TestAWorkerClaimsWhatItIsWokenForAndFinishesIt(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Config{})
	start(t, hub, nil)
	submit(t, hub, "task_1", twoTurns)
	hub.Wake(t, "task_1")
	task := hub.WaitState(t, "task_1", succeeded)
	require.Equal(t, "finished", task.Task.GetSummary())
	require.Equal(t, map[string]int{"step_task_1_1": 1, "step_task_1_2": 1}, task.Runs)
	require.Zero(t, task.Stale)
}

func TestTheBusMayBeInTheSameProcess(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Config{NoBusURL: true})
	start(t, hub, func(c *worker.Config) { c.NATSOptions = []nats.Option{nats.InProcessServer(hub.Nats())} })
	submit(t, hub, "task_1", twoTurns)
	hub.Wake(t, "task_1")
	hub.WaitState(t, "task_1", succeeded)
}

func TestAWorkerTakesNoMoreThanItHasSlotsFor(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	now, most := 0, 0
	full, release := make(chan struct{}), make(chan struct{})
	hub := hubtest.New(t, hubtest.Config{Exec: func(c hubtest.Call) hubtest.Result {
		if c.Tool != "shell_exec" {
			return hubtest.Result{Observation: "ok"}
		}
		mu.Lock()
		now++
		most = max(most, now)
		if now == 2 {
			select {
			case <-full:
			default:
				close(full)
			}
		}
		mu.Unlock()
		<-release
		mu.Lock()
		now--
		mu.Unlock()
		return hubtest.Result{Observation: "ok"}
	}})
	start(t, hub, nil)
	const tasks = 6
	for i := range tasks {
		id := fmt.Sprintf("task_%d", i)
		submit(t, hub, id, twoTurns)
		hub.Wake(t, id)
	}
	<-full
	require.Equal(t, 2, hub.Calls("ClaimTask"), "the other wake-ups stay on the bus for other workers")
	close(release)
	for i := range tasks {
		hub.WaitState(t, fmt.Sprintf("task_%d", i), succeeded)
	}
	require.Equal(t, 2, most)
}

func TestWakeupsThatLeadNowhereAreTakenOffTheBus(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Config{})
	start(t, hub, nil)
	hub.WakeRaw(t, `not JSON`)
	hub.WakeRaw(t, `{"task_id":"task_gone","attempt":1}`)
	submit(t, hub, "task_1", twoTurns)
	hub.WakeRaw(t, `{"task_id":"task_1","attempt":9}`)
	hub.Wake(t, "task_1")
	hub.Wake(t, "task_1") // two copies of one wake-up
	task := hub.WaitState(t, "task_1", succeeded)
	require.EqualValues(t, 1, task.Task.GetAttempt())
	require.Eventually(t, func() bool { return hub.Pending(t) == 0 }, waittest.Limit(10*time.Second), 10*time.Millisecond)
}

// A task goes on at another worker in the middle of a turn, and what ran is not
// run again.
func TestAKilledWorkersTaskGoesOnElsewhere(t *testing.T) {
	t.Parallel()
	started, release := make(chan struct{}), make(chan struct{})
	hub := hubtest.New(t, hubtest.Config{Exec: func(c hubtest.Call) hubtest.Result {
		if c.Tool == "shell_exec" {
			close(started)
			<-release
		}
		return hubtest.Result{Observation: "ok"}
	}})
	first := start(t, hub, nil)
	submit(t, hub, "task_1", twoTurns)
	hub.Wake(t, "task_1")
	<-started
	// The first worker loses its lease as if it had died.
	hub.Steal("task_1")
	first.Stop()
	start(t, hub, nil)
	hub.Wake(t, "task_1")
	hub.WaitFor(t, "task_1", func(task hubtest.Task) bool { return task.Task.GetState() == running })
	close(release)
	task := hub.WaitState(t, "task_1", succeeded)
	require.Equal(t, 1, task.Runs["step_task_1_1"])
	require.Zero(t, task.Released, "a lost task is not handed back")
}

func TestAStoppedWorkerHandsItsTasksBack(t *testing.T) {
	t.Parallel()
	started, release := make(chan struct{}), make(chan struct{})
	hub := hubtest.New(t, hubtest.Config{Exec: func(c hubtest.Call) hubtest.Result {
		if c.Tool == "shell_exec" {
			close(started)
			<-release
		}
		return hubtest.Result{Observation: "ok"}
	}})
	w := start(t, hub, nil)
	submit(t, hub, "task_1", twoTurns)
	hub.Wake(t, "task_1")
	<-started
	w.Stop()
	require.NoError(t, w.Err())
	task := hub.Task("task_1")
	require.Equal(t, queued, task.Task.GetState())
	require.Equal(t, 1, task.Released)
	require.Zero(t, task.Stale)
	close(release)

	// Started again, the same worker continues with it.
	require.NoError(t, w.Start(t.Context()))
	hub.Wake(t, "task_1")
	task = hub.WaitState(t, "task_1", succeeded)
	require.Equal(t, 1, task.Runs["step_task_1_1"])
}

func TestATaskThatIsClaimedDuringAStopIsHandedBackToo(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}), make(chan struct{})
	hub := hubtest.New(t, hubtest.Config{Fail: func(name string, _ int) error {
		if name == "ClaimTask" {
			close(asked)
			<-answer
		}
		return nil
	}})
	w := start(t, hub, nil)
	submit(t, hub, "task_1", twoTurns)
	hub.Wake(t, "task_1")
	<-asked
	stopped := make(chan struct{})
	go func() {
		w.Stop()
		close(stopped)
	}()
	close(answer)
	<-stopped
	task := hub.Task("task_1")
	if task.Task.GetAttempt() == 1 && task.Task.GetState() != succeeded {
		require.Equal(t, queued, task.Task.GetState())
		require.Equal(t, 1, task.Released)
	}
}

// A worker stops itself before its lease can have ended on the hub's
// clock.
func TestATaskStopsBeforeALeaseThatCannotBeRenewedHasEnded(t *testing.T) {
	t.Parallel()
	ttl := waittest.Limit(4 * time.Second)
	left := make(chan time.Time, 1)
	claimed := make(chan time.Time, 1)
	release := make(chan struct{})
	hub := hubtest.New(t, hubtest.Config{
		LeaseTTL: ttl,
		Fail: func(name string, _ int) error {
			if name == "RenewLeases" {
				return fault.New(fault.Unavailable, "away")
			}
			return nil
		},
		Exec: func(hubtest.Call) hubtest.Result {
			claimed <- time.Now()
			<-release
			return hubtest.Result{Observation: "ok"}
		},
		Left: func(name string) {
			if name == "ExecuteStep" {
				left <- time.Now()
			}
		},
	})
	start(t, hub, nil)
	submit(t, hub, "task_1", twoTurns)
	hub.Wake(t, "task_1")
	from := <-claimed
	stopped := <-left
	require.Less(t, stopped.Sub(from), ttl, "the worker left before the lease had ended")
	close(release)
	task := hub.Task("task_1")
	require.Zero(t, task.Stale)
	require.Zero(t, task.Released)
	require.Greater(t, hub.Calls("RenewLeases"), 1, "renewal was tried again sooner than each interval")
}

func TestARenewalThatSaysTheLeaseIsGoneStopsTheTaskAtOnce(t *testing.T) {
	t.Parallel()
	left := make(chan struct{}, 1)
	started, release := make(chan struct{}), make(chan struct{})
	hub := hubtest.New(t, hubtest.Config{
		LeaseTTL: waittest.Limit(3 * time.Second),
		Exec: func(hubtest.Call) hubtest.Result {
			close(started)
			<-release
			return hubtest.Result{Observation: "ok"}
		},
		Left: func(name string) {
			if name == "ExecuteStep" {
				left <- struct{}{}
			}
		},
	})
	start(t, hub, nil)
	submit(t, hub, "task_1", twoTurns)
	hub.Wake(t, "task_1")
	<-started
	require.Eventually(t, func() bool { return hub.Task("task_1").Batch > 0 }, waittest.Limit(10*time.Second), time.Millisecond)
	hub.Steal("task_1")
	<-left
	close(release)
	task := hub.Task("task_1")
	require.Zero(t, task.Stale, "nothing more was written")
	require.Equal(t, queued, task.Task.GetState())
}

// A lease whose renewal was deferred keeps its end: its task goes on until then, and after the
// next renewal.
func TestATaskWhoseRenewalIsDeferredGoesOn(t *testing.T) {
	t.Parallel()
	var deferred atomic.Int32
	release := make(chan struct{})
	hub := hubtest.New(t, hubtest.Config{
		LeaseTTL: waittest.Limit(3 * time.Second), Hold: 50 * time.Millisecond,
		Defer: func(task string) bool { return task == "task_1" && deferred.Add(1) == 1 },
		Exec: func(hubtest.Call) hubtest.Result {
			<-release
			return hubtest.Result{Observation: "ok"}
		},
	})
	start(t, hub, nil)
	submit(t, hub, "task_1", twoTurns)
	hub.Wake(t, "task_1")
	hub.WaitFor(t, "task_1", func(hubtest.Task) bool { return hub.Renewals() >= 3 })
	close(release)
	hub.WaitState(t, "task_1", succeeded)
	require.Greater(t, deferred.Load(), int32(3), "its first renewal was deferred")
	task := hub.Task("task_1")
	require.Zero(t, task.Stale+task.Released)
}

func TestLeasesOutliveManyRenewals(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	hub := hubtest.New(t, hubtest.Config{
		LeaseTTL: waittest.Limit(600 * time.Millisecond), Hold: 50 * time.Millisecond,
		Exec: func(c hubtest.Call) hubtest.Result {
			if c.Tool == "shell_exec" {
				<-release
			}
			return hubtest.Result{Observation: "ok"}
		},
	})
	start(t, hub, nil)
	submit(t, hub, "task_1", twoTurns)
	submit(t, hub, "task_2", twoTurns)
	hub.Wake(t, "task_1")
	hub.Wake(t, "task_2")
	hub.WaitFor(t, "task_1", func(hubtest.Task) bool { return hub.Renewals() >= 8 })
	close(release)
	hub.WaitState(t, "task_1", succeeded)
	hub.WaitState(t, "task_2", succeeded)
	require.Less(t, hub.Calls("RenewLeases"), hub.Calls("ExecuteStep")+20)
}

// A worker without a task tells that it is there, and takes none while it
// is drained.
func TestADrainedWorkerTakesNothingNew(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Config{LeaseTTL: 3 * time.Second})
	start(t, hub, nil)
	heard := func(more int) {
		n := hub.Heard() + more
		require.Eventually(t, func() bool { return hub.Heard() >= n }, waittest.Limit(30*time.Second), 10*time.Millisecond)
	}
	hub.Drain(true)
	heard(2)
	submit(t, hub, "task_1", twoTurns)
	hub.Wake(t, "task_1")
	heard(2)
	require.EqualValues(t, 1, hub.Pending(t), "the wake-up is left to others")
	require.Zero(t, hub.Calls("ClaimTask"))
	hub.Drain(false)
	hub.WaitState(t, "task_1", succeeded)
}

func TestAWorkerThatTheHubForgotRegistersAgain(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Config{})
	start(t, hub, nil)
	submit(t, hub, "task_1", twoTurns)
	hub.Wake(t, "task_1")
	hub.WaitState(t, "task_1", succeeded)
	hub.Forget()
	submit(t, hub, "task_2", twoTurns)
	hub.Wake(t, "task_2")
	hub.WaitState(t, "task_2", succeeded)
	require.GreaterOrEqual(t, hub.Calls("RegisterWorker"), 3, "refused as who it was, then taken as a new one")
}

func TestAHubThatIsNotThereYetIsWaitedFor(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Config{Fail: func(name string, n int) error {
		if name == "RegisterWorker" && n <= 3 || name == "ClaimTask" && n == 1 || name == "StartTask" && n <= 2 {
			return fault.New(fault.Unavailable, "starting")
		}
		return nil
	}})
	start(t, hub, nil)
	submit(t, hub, "task_1", twoTurns)
	hub.Wake(t, "task_1")
	hub.WaitState(t, "task_1", succeeded)
}

func TestAWrongTokenEndsTheWorkerWithAClearError(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Config{})
	w := start(t, hub, func(c *worker.Config) { c.Token = "dhw_wrong" })
	<-w.Done()
	require.ErrorContains(t, w.Err(), "the token is not known: use a worker token")
	require.NotContains(t, w.Err().Error(), "dhw_wrong")
}

func TestWhatCannotRunFailsTheTaskAndSaysWhy(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Config{Fail: func(name string, n int) error {
		if name == "StartTask" && n == 1 {
			return fault.New(fault.Precondition, "no node has the runtime kata").WithCode(fault.NodeUnavailable).WithFix("install kata")
		}
		return nil
	}})
	start(t, hub, func(c *worker.Config) { c.Slots = 1 })
	submit(t, hub, "task_1", twoTurns)
	hub.Wake(t, "task_1")
	task := hub.WaitState(t, "task_1", failed)
	require.Equal(t, "AGENT_018", task.Task.GetErrorCode())
	require.Equal(t, "no node has the runtime kata: install kata", task.Task.GetReason())

	submit(t, hub, "task_2", "turns: [{text: a, whenn: b}]")
	hub.Wake(t, "task_2")
	task = hub.WaitState(t, "task_2", failed)
	require.Contains(t, task.Task.GetErrorMessage(), `s.yaml:1: unknown key "whenn"`)
}

// Keys never reach a worker: its client asks the hub's relay with the lease.
func TestTheAnthropicModelIsAskedThroughTheRelayWithTheLease(t *testing.T) {
	t.Parallel()
	provider := &anthropictest.Handler{Answer: anthropictest.List(
		anthropictest.Answer{Blocks: []anthropictest.Block{{Tool: "shell_exec", ID: "t1", Input: `{"command": "ls"}`}}},
		anthropictest.Answer{Blocks: []anthropictest.Block{{Tool: "complete_task", ID: "t2", Input: `{"summary": "by relay"}`}}},
	)}
	hub := hubtest.New(t, hubtest.Config{Provider: provider})
	start(t, hub, nil)
	hub.Submit(hubtest.Task{
		Task: &deckhandv1.Task{
			Id: "task_1", AgentName: "tester", Goal: "g", Provider: "anthropic", Model: "claude-sonnet-5-5", CreatedAt: timestamppb.Now(),
		},
		Markdown: "---\nname: tester\ndescription: d\nprovider: anthropic\nmodel: claude-sonnet-5-5\ntools: [shell_exec]\nlimits: {iterations: 5}\n---\nTest.\n",
		Tools:    hubtest.Tools(t),
	})
	hub.Wake(t, "task_1")
	task := hub.WaitState(t, "task_1", succeeded)
	require.Equal(t, "by relay", task.Task.GetSummary())
	for _, r := range provider.Requests() {
		require.Regexp(t, `^task_1:1:dhl_[0-9a-z]{40}$`, r.Header.Get("X-Api-Key"))
		require.Equal(t, "claude-sonnet-5-5", r.Body["model"])
	}
}

func TestConfigurationMistakesNameTheFieldAndTheFix(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cfg  worker.Config
		says string
	}{
		"no hub":         {worker.Config{Token: "t"}, "hub-url: hub URL is empty"},
		"a hub by name":  {worker.Config{HubURL: "hub:7443", Token: "t"}, "hub-url: hub URL"},
		"no token":       {worker.Config{HubURL: "http://h"}, "token is empty"},
		"too many slots": {worker.Config{HubURL: "http://h", Token: "t", Slots: 20_000}, "slots is 20000"},
		"a strange pool": {worker.Config{HubURL: "http://h", Token: "t", Pool: "A b"}, `pool "A b"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := tc.cfg.Complete(t.Context())
			require.ErrorContains(t, err, tc.says)
		})
	}
}
