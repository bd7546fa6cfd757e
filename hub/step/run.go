package step

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/deckhand-sh/deckhand/hub/egress/credential"
	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/model/websearch"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/tool/forge"
	"github.com/deckhand-sh/deckhand/hub/work/lease"
	"github.com/deckhand-sh/deckhand/hub/work/plan"
	"github.com/deckhand-sh/deckhand/internal/crashpoint"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	"github.com/deckhand-sh/deckhand/internal/traceparent"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Execute runs a granted step, or re-attaches to one that is running. It returns when the
// step ends or ctx is done. The outcome is stored even if the caller has gone by then.
func (s *Steps) Execute(ctx context.Context, orgID string, le lease.Lease, stepID string) (db.Step, error) {
	step, t, err := s.start(ctx, orgID, le, stepID)
	if err != nil || State(step.State) != Started {
		return step, err
	}
	crashpoint.At(crashpoint.AfterStart, t.ID, step.ID)
	ctx, traced := s.cfg.Tracer.Span(ctx, "execute_tool "+step.Tool, attribute.String("gen_ai.operation.name", "execute_tool"),
		attribute.String("gen_ai.tool.name", step.Tool), attribute.String("gen_ai.tool.call.id", step.CallID),
		attribute.String("deckhand.step.id", step.ID), attribute.String("deckhand.task.id", t.ID))
	defer func() { traced(nil, attribute.String("deckhand.step.state", step.State)) }()
	if step, err = s.run(ctx, t, step); err != nil && notKnownYet(ctx, err) {
		return s.Get(context.WithoutCancel(ctx), orgID, stepID) // the caller calls again
	}
	return step, err
}

// notKnownYet reports that an error of run says nothing about the call: it may still run.
func notKnownYet(ctx context.Context, err error) bool {
	return ctx.Err() != nil || fault.Is(err, fault.Unavailable) || fault.Is(err, fault.Canceled) || fault.Is(err, fault.Deadline)
}

// run makes the call of a started step, or re-attaches to it, and stores its outcome. A
// command that its node never started is run again under the step's next exec id.
func (s *Steps) run(ctx context.Context, t db.Task, step db.Step) (db.Step, error) {
	record := s.cfg.Tools.Get(step.Tool)
	if record == nil {
		return step, fault.New(fault.Internal, "step %s was granted for tool %q, which this hub does not have", step.ID, step.Tool)
	}
	if err := s.markUntrusted(ctx, t, record); err != nil {
		return step, err
	}
	for {
		call, err := s.call(ctx, t, step, record)
		if err != nil {
			return step, err
		}
		result, err := record.Run(ctx, call)
		if err != nil {
			return step, fmt.Errorf("run step %s: %w", step.ID, err)
		}
		if result.NotStarted && step.Run < maxRuns {
			if step, err = s.nextRun(ctx, step); err != nil || State(step.State) != Started {
				return step, err
			}
			continue
		}
		crashpoint.At(crashpoint.BeforeOutcome, t.ID, step.ID)
		step, err = s.end(context.WithoutCancel(ctx), t.OrgID, t, step, record, result)
		crashpoint.At(crashpoint.AfterOutcome, t.ID, step.ID)
		return step, err
	}
}

// maxRuns is how often a step is run without asking a person: a command that a node
// accepts and never starts, and an idempotent one whose outcome is unknown.
const maxRuns = 5

// told returns which files of instructions a step need not tell: those that the model was told
// and has not been given a summary for since, and those that calls before it in its turn tell,
// which run at the same time.
func (s *Steps) told(ctx context.Context, step db.Step) ([]string, error) {
	told, err := s.cfg.Store.ToldInstructions(ctx, db.ToldInstructionsParams{OrgID: step.OrgID, TaskID: step.TaskID})
	if err != nil {
		return nil, fmt.Errorf("find the instructions that task %s was told: %w", step.TaskID, err)
	}
	beside, err := s.cfg.Store.CallsBeside(ctx, db.CallsBesideParams{OrgID: step.OrgID, TaskID: step.TaskID, Turn: step.Turn, CallIndex: step.CallIndex})
	if err != nil {
		return nil, fmt.Errorf("find the calls beside step %s: %w", step.ID, err)
	}
	for _, other := range beside {
		record, arguments, err := s.read(other)
		if err != nil {
			return nil, err
		}
		told = append(told, record.Instructions(arguments)...)
	}
	return told, nil
}

// nextRun gives a started step its next exec id, because the node never started the
// previous one and never will. If another caller was first, it returns the step's current
// state.
func (s *Steps) nextRun(ctx context.Context, step db.Step) (db.Step, error) {
	next, err := s.cfg.Store.RestartStep(ctx, db.RestartStepParams{OrgID: step.OrgID, ID: step.ID, Run: step.Run})
	if store.IsNotFound(err) {
		return s.Get(ctx, step.OrgID, step.ID)
	}
	if err != nil {
		return step, fmt.Errorf("run step %s again: %w", step.ID, err)
	}
	if step.NodeID != nil {
		s.cfg.AckOutcome(*step.NodeID, step.ExecID)
	}
	s.cfg.Log.Info("a node never started a command; it runs again under another exec id", "task_id", step.TaskID, "step_id", step.ID, "exec_id", next.ExecID)
	return next, nil
}

// conclude runs a step that has no effect outside the conversation and stores
// its outcome in the transaction that started it.
func (s *Steps) conclude(ctx context.Context, tx *event.Tx, t db.Task, step db.Step) (db.Step, error) {
	record := s.cfg.Tools.Get(step.Tool)
	call, err := s.call(ctx, t, step, record)
	if err != nil {
		return step, err
	}
	if record.Stores() {
		if call.Messages, err = messengerOf(ctx, s, t, step.ID, step.ExecID, tx); err != nil {
			return step, err
		}
	}
	if record.AsksPerson(call.Arguments) {
		if call.Answer, err = s.answer(ctx, tx, step); err != nil {
			return step, err
		}
	}
	result, err := record.Run(ctx, call)
	if err != nil {
		return step, fmt.Errorf("run step %s: %w", step.ID, err)
	}
	if step.Tool == toolname.UpdatePlan && !result.Failed {
		refused, err := plan.Set(ctx, tx, t, step.Turn, call.Arguments)
		if err != nil {
			return step, err
		}
		if refused != nil {
			result = tool.Refusal(refused)
		}
	}
	return s.endIn(ctx, tx, t, step, record, result)
}

// node returns the link to the step's node. It waits up to NodeWait for the node to
// connect.
func (s *Steps) node(ctx context.Context, step db.Step) (machine.Link, error) {
	if step.NodeID == nil {
		return nil, fault.New(fault.Unavailable, "step %s has no node", step.ID).WithObject(step.ID)
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.NodeWait)
	defer cancel()
	tick := time.NewTicker(s.cfg.NodeWait / 100)
	defer tick.Stop()
	for {
		node, err := s.cfg.Node(*step.NodeID)
		if err == nil || !fault.Is(err, fault.Unavailable) {
			return node, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-tick.C:
		}
	}
}

// call returns the data that a tool needs, from the arguments that the hub stored.
func (s *Steps) call(ctx context.Context, t db.Task, step db.Step, record *tool.Tool) (tool.Call, error) {
	call := tool.Call{StepID: step.ID, TaskID: t.ID, ExecID: step.ExecID, Knowledge: stepKnowledge{s, t}, Past: stepSearch{s.cfg.Store, s.cfg.Node, step}, Patterns: func(ctx context.Context, query string) ([]tool.PatternHit, error) {
		return s.cfg.Patterns(ctx, t, query)
	}, Live: func(ctx context.Context) bool {
		now, err := s.Get(ctx, step.OrgID, step.ID)
		return err != nil || State(now.State) == Started && now.Run == step.Run
	}}
	call.Memory = remembered{s, t, step}
	arguments, err := s.arguments(step)
	if err != nil {
		return call, err
	}
	if err := json.Unmarshal(arguments, &call.Arguments); err != nil {
		return call, fmt.Errorf("read arguments of step %s: %w", step.ID, err)
	}
	if record.Machines() {
		if err := machineCall(ctx, s, t, step, record, &call); err != nil || record.Place != deckhandv1.ToolPlace_TOOL_PLACE_NODE {
			return call, err
		}
	}
	if record.Sends() && !record.Stores() {
		return sendingCall(ctx, s, t, step, record, call)
	}
	if record.Place != deckhandv1.ToolPlace_TOOL_PLACE_NODE {
		return call, nil
	}
	if call.Node, err = s.node(ctx, step); err != nil {
		return call, err
	}
	p, err := s.persona(ctx, t)
	if err != nil {
		return call, err
	}
	call.OfflineGrace, call.OutputLimit, call.Env = p.OfflineGrace, p.OutputBytes, gitIdentity(t, p)
	call.Jobs, call.JobTime = jobsOf{s.cfg.Store.Queries, t}, p.Jobs.MaxTime
	if step.StartedAt != nil {
		call.StartedAt = *step.StartedAt
	}
	call.Told = func(ctx context.Context) ([]string, error) { return s.told(ctx, step) }
	if record.Waits {
		call.Child = func(ctx context.Context, id string) (tool.ChildTask, bool, error) {
			return s.cfg.Subtasks.Child(ctx, s.cfg.Store.Queries, t, id)
		}
		if call.WaitSince, call.WaitUntil, err = s.waited(ctx, step); err != nil {
			return call, err
		}
	}
	if record.Inspects() {
		if call.Approved, err = approvedState(step); err != nil {
			return call, err
		}
	}
	call.Forge = func(ctx context.Context, repository, name string) (forge.Access, error) {
		return s.cfg.Forge(ctx, credential.Caller{OrgID: t.OrgID, NodeID: *step.NodeID, JailID: step.JailID, ExecID: step.ExecID, Persona: p}, repository, name)
	}
	call.Engine = func(ctx context.Context) (websearch.Engine, error) { return s.cfg.Engine(ctx, t.OrgID) }
	call.Restore = func(ctx context.Context, name string) (tool.Restored, error) {
		return s.goBack(ctx, t, step, call.Node, name)
	}
	call.Sync = func(ctx context.Context, sync tool.SyncRequest) (tool.SyncResult, error) {
		return s.cfg.Artifacts.Sync(ctx, t, p, step.ID, sync)
	}
	call.Traceparent = traceparent.Child(t.Traceparent, step.ExecID)
	call.Ran = func(ctx context.Context, e *nodev1.Exec) {
		if e.GetStartedAt() == nil || e.GetEndedAt() == nil {
			return
		}
		s.cfg.Tracer.Past(ctx, "exec", step.ExecID, e.GetStartedAt().AsTime(), e.GetEndedAt().AsTime(),
			attribute.String("deckhand.exec.id", step.ExecID), attribute.String("deckhand.node.id", *step.NodeID),
			attribute.String("deckhand.jail.id", e.GetJailId()), attribute.Int("process.exit.code", int(e.GetExitCode())))
	}
	if toolname.IsBrowser(step.Tool) {
		call.Browser = browsers{s}.of(t, step, p)
	}
	if tool.IsMCP(step.Tool) {
		if call.MCP, err = s.mcpCall(ctx, t, p, step); err != nil {
			return call, err
		}
	}
	call.Jail, err = s.jailOf(ctx, t, p)
	return call, err
}
