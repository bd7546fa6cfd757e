// Package models runs a hub, a worker and a simulated node against servers that implement
// the wire formats of model APIs, including the errors and faults of such servers.
package models

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub"
	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/nodetest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
	"github.com/deckhand-sh/deckhand/worker"
	"github.com/deckhand-sh/deckhand/worker/model/modeltest"
)

// rig is a whole Deckhand in one process.
type rig struct {
	*hubtest.Hub

	t      *testing.T
	client *sdk.Client
	// commands are those that the node was given, and output is what each of
	// them prints.
	mu       sync.Mutex
	commands []string
	output   string
	// run replaces the execution of a command if it returns true.
	run func(spec *nodev1.ExecSpec) (output string, ran bool)
}

func newRig(t *testing.T) *rig { return newRigThat(t, func(*worker.Config) {}) }

func newRigThat(t *testing.T, is func(*worker.Config)) *rig {
	t.Helper()
	r := newHub(t, func(*hub.Config) {})
	r.work(is)
	return r
}

// newHub is a rig without a worker.
func newHub(t *testing.T, is func(*hub.Config)) *rig {
	t.Helper()
	cfg := hubtest.Config(t)
	is(&cfg)
	h := hubtest.Start(t, cfg)
	r := &rig{Hub: h, t: t, client: h.Client(t, h.AdminToken), output: "done\n"}
	join, err := h.LocalJoinToken(t.Context())
	require.NoError(t, err)
	node, err := nodetest.New(t.Context(), nodetest.Config{
		Dir: t.TempDir(), HubURL: h.URL(), JoinToken: join, Name: "sim", Log: hubtest.Log(t),
		Run: func(_ context.Context, spec *nodev1.ExecSpec) (string, *nodev1.Exec) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.run != nil {
				if output, ran := r.run(spec); ran {
					return output, &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_EXITED}
				}
			}
			r.commands = append(r.commands, strings.Join(spec.GetArgv(), " "))
			return r.output, &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_EXITED}
		},
	})
	require.NoError(t, err)
	require.NoError(t, node.Start(t.Context()))
	t.Cleanup(node.Stop)
	return r
}

// work adds a worker, and returns it.
func (r *rig) work(is func(*worker.Config)) *worker.Worker {
	transport := &http.Transport{}
	r.t.Cleanup(transport.CloseIdleConnections)
	cfg := worker.Config{
		HubURL: r.URL(), Token: config.Secret(r.WorkerToken), Slots: 100, HTTPClient: &http.Client{Transport: transport},
		NATSOptions: []nats.Option{nats.InProcessServer(r.NATS())},
	}
	is(&cfg)
	w, err := cfg.Complete(r.t.Context())
	if err == nil {
		err = w.Start(r.t.Context())
	}
	if !assert.NoError(r.t, err) {
		return w // it may be called from any goroutine
	}
	r.t.Cleanup(w.Stop)
	return w
}

// served is the provider and the model that a test of a format uses.
var served = map[modeltest.Format][2]string{
	modeltest.Messages: {"anthropic", "claude-sonnet-4-5"}, modeltest.Chat: {"qwen", "qwen-plus"},
	modeltest.Responses: {"openai", "gpt-5"}, modeltest.Gemini: {"gemini", "gemini-2.5-flash"},
}

// connect connects the provider of a format, which that server is.
func (r *rig) connect(f modeltest.Format, url string) {
	r.t.Helper()
	if f == modeltest.Chat || f == modeltest.Responses {
		url += "/v1"
	}
	_, err := r.client.Providers.ConnectProvider(r.t.Context(), &deckhandv1.ConnectProviderRequest{
		Name: served[f][0], BaseUrl: url, Key: "the-key-of-the-provider-0123",
	})
	require.NoError(r.t, err)
}

const personaFile = `---
name: %s
description: Tests a model
provider: %s
model: %s
max_tokens: 1000
tools: [shell_exec, file_read]
limits: {iterations: 10, cost_usd: 5}
workspace: {scope: task}
%s---
Test.
`

func (r *rig) apply(name, provider, model, more string) {
	r.t.Helper()
	_, err := r.client.Agents.ApplyAgent(r.t.Context(), &deckhandv1.ApplyAgentRequest{
		Filename: name + ".md", Markdown: fmt.Sprintf(personaFile, name, provider, model, more),
	})
	require.NoError(r.t, err)
}

func (r *rig) submit(agent, goal string) string {
	r.t.Helper()
	res, err := r.client.Tasks.SubmitTask(r.t.Context(), &deckhandv1.SubmitTaskRequest{AgentId: agent, Goal: goal})
	require.NoError(r.t, err)
	return res.GetTask().GetId()
}

// ran returns how many commands contained a word.
func (r *rig) ran(word string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, command := range r.commands {
		if strings.Contains(command, word) {
			n++
		}
	}
	return n
}

// rests are the states that a task stays in by itself.
var rests = map[deckhandv1.TaskState]bool{
	deckhandv1.TaskState_TASK_STATE_SUCCEEDED: true, deckhandv1.TaskState_TASK_STATE_FAILED: true, deckhandv1.TaskState_TASK_STATE_PAUSED: true,
	deckhandv1.TaskState_TASK_STATE_ESCALATED: true, deckhandv1.TaskState_TASK_STATE_CANCELLED: true, deckhandv1.TaskState_TASK_STATE_TIMED_OUT: true,
}

// rested waits until a task stays as it is.
func (r *rig) rested(id string) *deckhandv1.Task {
	r.t.Helper()
	var task *deckhandv1.Task
	waittest.Until(r.t, time.Minute, "task "+id+" to come to rest", func() bool {
		res, err := r.client.Tasks.GetTask(r.t.Context(), &deckhandv1.GetTaskRequest{TaskId: id})
		require.NoError(r.t, err)
		task = res.GetTask()
		return rests[task.GetState()]
	})
	return task
}

// row reads one row of the database.
func row[T any](r *rig, sql string, args ...any) T {
	r.t.Helper()
	conn, err := pgx.Connect(r.t.Context(), r.DatabaseURL)
	require.NoError(r.t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(r.t.Context())) }()
	var out T
	require.NoError(r.t, conn.QueryRow(r.t.Context(), sql, args...).Scan(&out), strings.TrimSpace(sql))
	return out
}
