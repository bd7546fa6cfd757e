package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/hub"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model/anthropic/anthropictest"
)

const (
	memoryTasks = 20
	memoryTurns = 100
)

// memory measures what a task costs a worker process: while it runs, at 100
// turns of history, over what the process has with one such task behind it; and
// while it waits for a person, when the worker holds nothing of it.
func memory(ctx context.Context) (_ result, err error) {
	asks := make(chan struct{}, memoryTasks+1)
	goOn := make(chan struct{})
	var once sync.Once
	m := newTurnModel(func(a asked) anthropictest.Block {
		switch {
		case a.turn == 0:
			return anthropictest.Block{Text: "All went well so far."}
		case a.turn <= memoryTurns:
			return call(a, "shell_exec", map[string]any{"command": fmt.Sprintf("make %s-%d", a.task, a.turn)})
		case a.task == "first":
			return call(a, "complete_task", map[string]any{"summary": "done"})
		}
		asks <- struct{}{}
		select {
		case <-goOn:
		case <-ctx.Done():
		}
		return call(a, "request_input", map[string]any{"question": "Which colour?"})
	})
	defer m.Close()
	defer once.Do(func() { close(goOn) })
	s, err := longRuns(ctx, m, func(command string) string {
		return command + " makes:\n" + strings.Repeat("compiled one more file without a warning\n", 50)
	}, func(c *hub.Config) { c.InProcessNATS, c.NATSListen = false, "127.0.0.1:0" })
	if err != nil {
		return nil, err
	}
	defer s.stop()
	metrics, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	token, err := s.hub.WorkerToken()
	if err != nil {
		return nil, err
	}
	worker, err := s.process(ctx, []string{"DECKHAND_TOKEN=" + token}, "worker", "--hub-url", s.hub.URL(), "--slots", fmt.Sprint(memoryTasks), "--metrics-listen", metrics)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, worker.stop()) }()
	first, err := s.submitRun(ctx, "first")
	if err != nil {
		return nil, err
	}
	if err := s.ends(ctx, first, deckhandv1.TaskState_TASK_STATE_SUCCEEDED); err != nil {
		return nil, err
	}
	before := residentMB(worker.cmd.Process.Pid)
	ids := make([]string, memoryTasks)
	for i := range ids {
		if ids[i], err = s.submitRun(ctx, fmt.Sprintf("task-%d", i)); err != nil {
			return nil, err
		}
	}
	for n := range memoryTasks {
		select {
		case <-asks:
		case <-time.After(5 * time.Minute):
			return nil, fmt.Errorf("only %d of %d tasks came to turn %d: %s", n, memoryTasks, memoryTurns, worker.log.String())
		}
	}
	running := (residentMB(worker.cmd.Process.Pid) - before) / memoryTasks
	once.Do(func() { close(goOn) })
	for _, id := range ids {
		if err := s.ends(ctx, id, deckhandv1.TaskState_TASK_STATE_NEEDS_INPUT); err != nil {
			return nil, err
		}
	}
	held, err := heldTasks(ctx, metrics)
	if err != nil {
		return nil, err
	}
	if held != 0 {
		return nil, fmt.Errorf("the worker holds %d tasks that wait for a person", held)
	}
	list, err := s.client.Inbox.ListInbox(ctx, &deckhandv1.ListInboxRequest{})
	if err != nil {
		return nil, err
	}
	if n := len(list.GetItems()); n != memoryTasks {
		return nil, fmt.Errorf("%d questions wait, of %d", n, memoryTasks)
	}
	return result{"unit": "MB a running task at 100 turns", "ours": running, "waiting": held, "n": memoryTasks}, nil
}

// freeAddress returns a free port of loopback.
func freeAddress(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// heldTasks reads how many tasks a worker runs.
func heldTasks(ctx context.Context, address string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		var held int
		if n, _ := fmt.Sscanf(line, "deckhand_worker_tasks_running %d", &held); n == 1 {
			return held, nil
		}
	}
	return 0, fmt.Errorf("the worker does not report its tasks")
}
