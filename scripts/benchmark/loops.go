package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/deckhand-sh/deckhand/hub"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model/anthropic/anthropictest"
)

const (
	loopTasks = 1000
	// loopHold is how long all of them wait on the model: six renewals.
	loopHold = time.Minute
	loopTTL  = 30 * time.Second
)

const loopPersona = `---
name: waiter
description: Waits for its model.
provider: anthropic
model: claude-sonnet-5-5
limits: {iterations: 5}
workspace: {scope: task}
tools: [complete_task]
---
Wait.
`

// loops measures the memory of a worker process whose thousand tasks all wait
// on a model that is silent for a minute, and whether any lease is renewed late
// in the meantime. The model is a local server with the real wire format.
func loops(ctx context.Context) (_ result, err error) {
	asked := make(chan struct{}, loopTasks)
	answer := make(chan struct{})
	var answering sync.Once
	handler := &anthropictest.Handler{Answer: func(anthropictest.Request) anthropictest.Answer {
		return anthropictest.Answer{Blocks: []anthropictest.Block{{Tool: "complete_task", ID: "toolu_1", Input: `{"summary":"done"}`}}}
	}}
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		select {
		case <-answer:
			handler.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}))
	defer provider.Close()
	defer answering.Do(func() { close(answer) })

	s, err := newStack(ctx, func(c *hub.Config) {
		c.InProcessNATS, c.NATSListen, c.LeaseTTL = false, "127.0.0.1:0", loopTTL
		c.AnthropicBaseURL, c.AnthropicKey = provider.URL, "sk-ant-bench"
	})
	if err != nil {
		return nil, err
	}
	defer s.stop()
	if err := noBudget(ctx, s.client); err != nil {
		return nil, err
	}
	if err := s.simulatedNode(ctx); err != nil {
		return nil, err
	}
	worker, err := s.workerProcess(ctx, loopTasks)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, worker.stop()) }()
	if _, err := s.client.Agents.ApplyAgent(ctx, &deckhandv1.ApplyAgentRequest{Filename: "waiter.md", Markdown: loopPersona}); err != nil {
		return nil, err
	}
	for range loopTasks {
		if _, err := s.client.Tasks.SubmitTask(ctx, &deckhandv1.SubmitTaskRequest{AgentId: "waiter"}); err != nil {
			return nil, err
		}
	}
	for n := range loopTasks {
		select {
		case <-asked:
		case <-time.After(2 * time.Minute):
			return nil, fmt.Errorf("only %d of %d tasks ask the model: %s", n, loopTasks, worker.log.String())
		}
	}
	db, err := pgx.Connect(ctx, s.cluster.URL("deckhand"))
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, db.Close(ctx)) }()
	memory := 0.0
	least := loopTTL
	for until := time.Now().Add(loopHold); time.Now().Before(until); {
		memory = max(memory, residentMB(worker.cmd.Process.Pid))
		var held int
		var left float64
		if err := db.QueryRow(ctx, `SELECT count(*), coalesce(min(extract(epoch FROM lease_expires_at - clock_timestamp())), 0)::float8
			FROM tasks WHERE state = 'running' AND attempt = 1`).Scan(&held, &left); err != nil {
			return nil, err
		}
		if held != loopTasks {
			return nil, fmt.Errorf("only %d of %d tasks are held by their first lease", held, loopTasks)
		}
		least = min(least, time.Duration(left*float64(time.Second)))
		time.Sleep(500 * time.Millisecond)
	}
	answering.Do(func() { close(answer) })
	return result{
		"unit": "MB", "ours": memory, "n": loopTasks, "least_lease_left_s": least.Seconds(), "lease_s": loopTTL.Seconds(),
	}, nil
}

// process is a role in a process of its own.
type process struct {
	cmd *exec.Cmd
	log bytes.Buffer
}

// workerProcess starts a worker as operators do.
func (s *stack) workerProcess(ctx context.Context, slots int) (*process, error) {
	token, err := s.hub.WorkerToken()
	if err != nil {
		return nil, err
	}
	return s.process(ctx, []string{"DECKHAND_TOKEN=" + token}, "worker", "--hub-url", s.hub.URL(), "--slots", fmt.Sprint(slots))
}

// process builds deckhand and starts it.
func (s *stack) process(ctx context.Context, env []string, args ...string) (*process, error) {
	bin := filepath.Join(s.dir, "deckhand")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", bin, "./cmd/deckhand").CombinedOutput(); err != nil { //nolint:gosec // a fixed program
		return nil, fmt.Errorf("build deckhand: %w\n%s", err, out)
	}
	p := &process{cmd: exec.CommandContext(ctx, bin, args...)} //nolint:gosec // as built above
	p.cmd.Env = append(append(os.Environ(), "DECKHAND_PRESSURE_MAX_LOAD=off"), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	return p, p.cmd.Start()
}

func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return p.cmd.Wait()
}
