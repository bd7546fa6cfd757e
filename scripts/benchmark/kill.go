package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/deckhand-sh/deckhand/node/daemon"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	killTasks  = 50
	killRounds = 3
	// killEach is how many processes each task has.
	killEach = 4
)

const sleeperPersona = `---
name: sleeper
description: Sleeps.
provider: script
script: sleeper.script.yaml
limits: {iterations: 5}
workspace: {scope: task}
tools: [shell_exec]
---
Sleep.
`

// sleeperScript has a task of a shell's child, one in the background and two
// that have left its session and its parents.
const sleeperScript = `turns:
  - text: I stay.
    calls:
      - tool: shell_exec
        arguments: {command: "sleep %[1]s & for i in 1 2; do (setsid sleep %[1]s &) ; done; sleep %[1]s"}
`

// killSwitch measures from the order to kill an agent with fifty running tasks,
// each in a real jail of its own, to the answer that confirms for each of them
// that nothing of it runs. The host's own list of processes has to agree.
func killSwitch(ctx context.Context) (_ result, err error) {
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
	node, err := daemon.Config{
		DataDir: filepath.Join(m.dir, "daemon"), HubURL: s.hub.URL(), EdgeAddress: s.hub.EdgeAddress(), Containerd: m.containerd.Address(),
		Namespace: m.namespace + "-kill", MakeJoinToken: s.hub.LocalJoinToken, EndJails: true,
	}.Complete(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.start(ctx, node); err != nil {
		return nil, err
	}
	if err := s.worker(ctx, killTasks); err != nil {
		return nil, err
	}
	mark := strconv.Itoa(1_000_000_000 + os.Getpid())
	if _, err := s.client.Agents.ApplyAgent(ctx, &deckhandv1.ApplyAgentRequest{
		Filename: "sleeper.md", Markdown: sleeperPersona, Script: fmt.Sprintf(sleeperScript, mark),
	}); err != nil {
		return nil, err
	}
	var took []time.Duration
	for range killRounds {
		round, err := s.killRound(ctx, mark)
		if err != nil {
			return nil, err
		}
		took = append(took, round...)
	}
	slices.Sort(took)
	return result{
		"unit": "s", "ours": percentile(took, 99) / 1000, "p50": percentile(took, 50) / 1000, "n": len(took),
		"tasks": killTasks, "processes_a_task": killEach,
	}, nil
}

// killRound has fifty tasks run, kills them, and returns how long each took.
func (s *stack) killRound(ctx context.Context, mark string) ([]time.Duration, error) {
	for range killTasks {
		if _, err := s.client.Tasks.SubmitTask(ctx, &deckhandv1.SubmitTaskRequest{AgentId: "sleeper"}); err != nil {
			return nil, err
		}
	}
	for deadline := time.Now().Add(5 * time.Minute); alive(mark) < killTasks*killEach; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("only %d of %d processes run", alive(mark), killTasks*killEach)
		}
	}
	begin := time.Now()
	res, err := s.client.Control.Kill(ctx, &deckhandv1.KillRequest{
		Scope: deckhandv1.KillScope_KILL_SCOPE_AGENT, ObjectId: "sleeper", Reason: "benchmark",
	})
	lasted := time.Since(begin)
	if err != nil {
		return nil, err
	}
	if left := alive(mark); left > 0 {
		return nil, fmt.Errorf("%d processes are left after the answer", left)
	}
	took := make([]time.Duration, 0, killTasks)
	for _, k := range res.GetTasks() {
		if k.GetOutcome() != deckhandv1.KillOutcome_KILL_OUTCOME_CONFIRMED {
			return nil, fmt.Errorf("task %s: %s: %s", k.GetTaskId(), k.GetOutcome(), k.GetDetail())
		}
		took = append(took, lasted)
	}
	if len(took) != killTasks {
		return nil, errors.New("the answer does not have every task")
	}
	_, err = s.client.Control.ReleaseHold(ctx, &deckhandv1.ReleaseHoldRequest{HoldId: res.GetHold().GetId()})
	return took, err
}

// alive returns how many processes of this machine have an argument, as the
// host's /proc has it.
func alive(argument string) (n int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline")) //nolint:gosec // of /proc
		if err != nil {
			continue // it has ended meanwhile
		}
		for arg := range bytes.SplitSeq(line, []byte{0}) {
			if string(arg) == argument {
				n++
			}
		}
	}
	return n
}
