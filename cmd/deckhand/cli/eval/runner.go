package eval

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/persona"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// Runner runs scenarios on a hub.
type Runner struct {
	Client *sdk.Client
	// Provider and Model play the agents; empty for the scenarios' own scripts.
	Provider, Model string
	// Prefix of the agents' names: each scenario has an agent of its own, whose
	// workspace is cleared before it begins.
	Prefix string
	// Parallel is how many scenarios run side by side.
	Parallel int
	// Timeout ends a scenario.
	Timeout time.Duration
	// Done, if set, is told of each result as it comes, by several goroutines.
	Done func(Result)
}

// checkTimeout bounds one check.
const checkTimeout = time.Minute

// Run runs scenarios and returns their results, in their order. An error is
// the context's.
func (r *Runner) Run(ctx context.Context, scenarios []Scenario) ([]Result, error) {
	results := make([]Result, len(scenarios))
	free := make(chan struct{}, max(1, r.Parallel))
	var wg sync.WaitGroup
	for i, s := range scenarios {
		wg.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			began := time.Now()
			results[i] = r.one(ctx, s)
			results[i].Seconds = time.Since(began).Round(100 * time.Millisecond).Seconds()
			if r.Done != nil {
				r.Done(results[i])
			}
		})
	}
	wg.Wait()
	return results, context.Cause(ctx)
}

func (r *Runner) one(ctx context.Context, s Scenario) Result {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout, fmt.Errorf("it took longer than %s", r.Timeout))
	defer cancel()
	out := Result{Scenario: s.Name, Resumed: s.Resume}
	if err := r.play(ctx, s, &out); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		out.Problem = err.Error()
		r.end(ctx, out.TaskID)
	}
	out.Passed = out.Problem == "" && out.State == "succeeded" && len(out.Failed) == 0 && len(out.Incidents) == 0
	return out
}

// end cancels what is left of a scenario that could not be played to its end.
func (r *Runner) end(ctx context.Context, taskID string) {
	if taskID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	// It may have ended by itself.
	_, _ = r.Client.Tasks.CancelTask(ctx, &deckhandv1.CancelTaskRequest{TaskId: taskID, Reason: "the evaluation gave it up"})
}

func (r *Runner) play(ctx context.Context, s Scenario, out *Result) error {
	agent := r.Prefix + "-" + s.Name
	if err := r.apply(ctx, s, agent); err != nil {
		return err
	}
	if err := r.clear(ctx, agent); err != nil {
		return fmt.Errorf("clear the workspace: %w", err)
	}
	request := &deckhandv1.SubmitTaskRequest{AgentId: agent, Goal: s.Goal, Title: "eval: " + s.Name, IdempotencyKey: ident.New("eval")}
	for _, path := range slices.Sorted(maps.Keys(s.Files)) {
		request.Inputs = append(request.Inputs, &deckhandv1.InputFile{Path: path, Content: []byte(s.Files[path])})
	}
	submitted, err := r.Client.Tasks.SubmitTask(ctx, request)
	if err != nil {
		return fmt.Errorf("submit the task: %w", err)
	}
	out.TaskID = submitted.GetTask().GetId()
	if s.Resume {
		if _, err := r.Client.Tasks.PauseTask(ctx, &deckhandv1.PauseTaskRequest{TaskId: out.TaskID, OnNextTool: true}); err != nil {
			return fmt.Errorf("pause the task: %w", err)
		}
	}
	if err := r.await(ctx, s, out); err != nil {
		return err
	}
	task, err := r.look(ctx, s, out)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(s.Checks)) {
		holds, err := r.holds(ctx, task, agent, s.Checks[name])
		if err != nil {
			return fmt.Errorf("check %q: %w", name, err)
		}
		if !holds {
			out.Failed = append(out.Failed, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Incidents)) {
		happened, err := r.holds(ctx, task, agent, s.Incidents[name])
		if err != nil {
			return fmt.Errorf("look for %q: %w", name, err)
		}
		if happened {
			out.Incidents = append(out.Incidents, name)
		}
	}
	return nil
}

// apply stores the scenario's agent.
func (r *Runner) apply(ctx context.Context, s Scenario, agent string) error {
	plays := fmt.Sprintf("provider: %s\nmodel: %q", r.Provider, r.Model)
	request := &deckhandv1.ApplyAgentRequest{Filename: agent + ".md"}
	if r.Provider == "" || r.Provider == persona.ProviderScript {
		if s.Script == "" {
			return fault.New(fault.Invalid, "scenario %s has no script", s.Name).WithFix("run it with a real model, or give it one")
		}
		plays, request.Script = "provider: script\nscript: "+s.Name+".script.yaml", s.Script
	}
	request.Markdown = fmt.Sprintf(`---
name: %s
description: Plays the scenario %s
%s
tools: [%s]
workspace: {scope: agent, size: 64MiB}
context: {memory_tokens: 0, patterns: false} # nothing of earlier runs, and nothing for later ones
limits: {iterations: %d}
---
You are an engineer at work in a folder of files. Do what the goal asks, no more, and check your own work before you say
that it is done. Prefer the smallest change. Never touch what the goal tells you to leave alone.
`, agent, s.Name, plays, strings.Join(s.Tools, ", "), s.Iterations)
	if _, err := r.Client.Agents.ApplyAgent(ctx, request); err != nil {
		return fmt.Errorf("apply the agent: %w", err)
	}
	// It may have been suspended by how it ended when it played last.
	if _, err := r.Client.Agents.ResumeAgent(ctx, &deckhandv1.ResumeAgentRequest{AgentId: agent}); err != nil {
		return fmt.Errorf("let the agent start: %w", err)
	}
	return nil
}

// clear empties the workspace of an agent that ran before.
func (r *Runner) clear(ctx context.Context, agent string) error {
	res, err := r.Client.Agents.GetAgent(ctx, &deckhandv1.GetAgentRequest{AgentId: agent})
	if err != nil {
		return err
	}
	node := res.GetAgent().GetHomeNodeId()
	if node == "" {
		return nil // it has none yet
	}
	ok, err := r.run(ctx, node, agent, "find /workspace -mindepth 1 -delete")
	if fault.Is(fault.FromConnect(err), fault.Precondition) {
		return nil // it has none yet
	}
	if err == nil && !ok {
		err = errors.New("files are left")
	}
	return err
}

// await follows a task until it ends or waits for a person.
func (r *Runner) await(ctx context.Context, s Scenario, out *Result) error {
	for res, err := range r.Client.Watch(ctx, &deckhandv1.WatchRequest{TaskIds: []string{out.TaskID}, Follow: true}) {
		if err != nil {
			return fmt.Errorf("follow the task: %w", err)
		}
		e := res.GetEvent()
		if e.GetType() != "state_changed" {
			continue
		}
		switch to := e.GetPayload().GetFields()["to"].GetStringValue(); {
		case to == "paused" && s.Resume:
			s.Resume = false // the pause that was asked for
			if _, err := r.Client.Tasks.ResumeTask(ctx, &deckhandv1.ResumeTaskRequest{TaskId: out.TaskID}); err != nil {
				return fmt.Errorf("resume the task: %w", err)
			}
		case slices.Contains([]string{"paused", "awaiting_approval", "needs_input", "review_needed", "escalated"}, to):
			// Nobody is there to answer.
			out.Intervened = true
			r.end(ctx, out.TaskID)
		}
	}
	return nil
}

// look reads what is known of a task that has ended.
func (r *Runner) look(ctx context.Context, s Scenario, out *Result) (*deckhandv1.Task, error) {
	got, err := r.Client.Tasks.GetTask(ctx, &deckhandv1.GetTaskRequest{TaskId: out.TaskID})
	if err != nil {
		return nil, fmt.Errorf("read the task: %w", err)
	}
	task := got.GetTask()
	out.State = strings.ToLower(strings.TrimPrefix(task.GetState().String(), "TASK_STATE_"))
	out.Iterations = int(task.GetIteration())
	out.Retried = task.GetFailures() > 0 || task.GetWorkerLosses() > 0 || task.GetOriginId() != "" && task.GetResumedAt() == 0
	for _, u := range []*deckhandv1.Usage{task.GetUsage(), task.GetSubtasks().GetUsage()} {
		out.InputTokens += u.GetInputTokens() + u.GetCacheReadTokens() + u.GetCacheWriteTokens()
		out.CachedTokens += u.GetCacheReadTokens()
		out.OutputTokens += u.GetOutputTokens()
		out.CostMicros += u.GetCostMicros()
	}
	out.Subtasks, out.SubtasksDone = int(task.GetSubtasks().GetTasks()), int(task.GetSubtasks().GetSucceeded())
	asked, err := r.Client.Inbox.ListInbox(ctx, &deckhandv1.ListInboxRequest{TaskId: out.TaskID, States: anyState, PageSize: 1})
	if err != nil {
		return nil, fmt.Errorf("read what it asked: %w", err)
	}
	out.Intervened = out.Intervened || len(asked.GetItems()) > 0
	steps, err := r.Client.Steps(ctx, out.TaskID)
	if err != nil {
		return nil, fmt.Errorf("read the steps: %w", err)
	}
	for _, step := range steps {
		out.Calls++
		denied := step.GetState() == deckhandv1.StepState_STEP_STATE_DENIED
		if s.fits(step.GetTool()) && !denied {
			out.Fitting++
		}
		if denied || step.GetState() == deckhandv1.StepState_STEP_STATE_FAILED || step.GetOutcome().GetFields()["exit_code"].GetNumberValue() != 0 {
			out.Errors++
		}
	}
	return task, nil
}

// anyState are all states of an inbox item.
var anyState = []deckhandv1.InboxState{
	deckhandv1.InboxState_INBOX_STATE_OPEN, deckhandv1.InboxState_INBOX_STATE_ANSWERED,
	deckhandv1.InboxState_INBOX_STATE_EXPIRED, deckhandv1.InboxState_INBOX_STATE_WITHDRAWN,
}

// History returns what came of tasks that have ended, the newest first and at
// most so many: as a run of scenarios does, without checks. Subtasks count with
// the task above them.
func (r *Runner) History(ctx context.Context, agent string, most int) ([]Result, error) {
	var out []Result
	request := &deckhandv1.ListTasksRequest{AgentId: agent, PageSize: 100, States: []deckhandv1.TaskState{
		deckhandv1.TaskState_TASK_STATE_SUCCEEDED, deckhandv1.TaskState_TASK_STATE_FAILED, deckhandv1.TaskState_TASK_STATE_TIMED_OUT,
	}}
	for {
		page, err := r.Client.Tasks.ListTasks(ctx, request)
		if err != nil {
			return nil, fmt.Errorf("list the tasks: %w", err)
		}
		for _, task := range page.GetTasks() {
			if task.GetParentId() != "" || task.GetProvider() == "" {
				continue
			}
			result := Result{Scenario: task.GetAgentName(), TaskID: task.GetId(), Resumed: task.GetResumedAt() > 0}
			if _, err := r.look(ctx, Scenario{}, &result); err != nil {
				return nil, err
			}
			result.Passed = result.State == "succeeded"
			if out = append(out, result); len(out) == most {
				return out, nil
			}
		}
		if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
			return out, nil
		}
	}
}

func (r *Runner) holds(ctx context.Context, task *deckhandv1.Task, agent, command string) (bool, error) {
	if task.GetNodeId() == "" {
		return false, nil // it never began
	}
	return r.run(ctx, task.GetNodeId(), agent, command)
}

// run runs a command in an agent's workspace, and says whether it succeeded.
func (r *Runner) run(ctx context.Context, node, agent, command string) (bool, error) {
	started, err := r.Client.NodeExecs.StartNodeExec(ctx, &deckhandv1.StartNodeExecRequest{
		NodeId: node, Target: &deckhandv1.StartNodeExecRequest_AgentId{AgentId: agent}, Argv: []string{"/bin/bash", "-c", command},
		Timeout: durationpb.New(checkTimeout), Reason: "an evaluation",
	})
	if err != nil {
		return false, err
	}
	for exec := started.GetExec(); ; {
		if exec.GetState() == deckhandv1.NodeExecState_NODE_EXEC_STATE_ENDED {
			if exec.GetEndReason() != "exited" {
				return false, fmt.Errorf("the command ended as %s: %s", exec.GetEndReason(), exec.GetError())
			}
			return exec.GetExitCode() == 0, nil
		}
		got, err := r.Client.NodeExecs.GetNodeExec(ctx, &deckhandv1.GetNodeExecRequest{
			ExecId: exec.GetId(), Wait: durationpb.New(20 * time.Second),
		})
		if err != nil {
			return false, err
		}
		exec = got.GetExec()
	}
}
