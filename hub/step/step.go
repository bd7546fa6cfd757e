// Package step is the effect ledger: each tool call is a row, decided by the hub, with
// the intent stored before anything happens and the outcome after. Steps proposes, starts
// and concludes calls; State lists the states of a step.
//
// A call is identified by (task, turn, call index) and never executed twice. Each run of
// a step has an exec id, which its node runs at most once. So if the worker, the hub or
// the link fails, the next attempt proposes and executes the same call again and is
// attached to the run that exists. A run that the node recorded and never started is
// repeated under the next exec id. If it cannot be found out whether a call took effect,
// its outcome is unknown: an idempotent tool runs again, any other step waits for a
// person.
//
// A call that needs an approval waits for an inbox item (package inbox). The grant is
// bound to what the approver saw: if any part of it changes before the call is executed,
// approval is requested again.
package step

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/hub/egress/credential"
	"github.com/deckhand-sh/deckhand/hub/fleet/image"
	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/learn/knowledge"
	"github.com/deckhand-sh/deckhand/hub/learn/memory"
	"github.com/deckhand-sh/deckhand/hub/model/websearch"
	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/storage/vault"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/tool/forge"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/lease"
	"github.com/deckhand-sh/deckhand/hub/work/nodeexec"
	"github.com/deckhand-sh/deckhand/hub/work/quota"
	"github.com/deckhand-sh/deckhand/hub/work/setup"
	"github.com/deckhand-sh/deckhand/hub/work/subtask"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/crashpoint"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/tracing"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// State is the state of a step.
type State string

// The states.
const (
	Proposed State = "proposed"
	Denied   State = "denied"
	Waiting  State = "waiting"
	Granted  State = "granted"
	Started  State = "started"
	// Deferred is a call of a run in review mode that would have left the workspace. It is
	// deferred until a person accepts the run (see Release).
	Deferred  State = "deferred"
	Succeeded State = "succeeded"
	Failed    State = "failed"
	Unknown   State = "unknown"
	Skipped   State = "skipped"
	Cancelled State = "cancelled"
)

// transitions maps each state to those that a step may move to from it. No step
// moves to Deferred: it is created in that state. The database holds the same table.
var transitions = map[State][]State{
	Proposed:  {Denied, Waiting, Granted, Cancelled},
	Waiting:   {Denied, Granted, Skipped, Cancelled},
	Granted:   {Waiting, Started, Skipped, Cancelled},
	Started:   {Succeeded, Failed, Unknown, Cancelled},
	Unknown:   {Granted, Succeeded, Failed, Skipped, Cancelled},
	Deferred:  {Denied, Started, Skipped, Cancelled},
	Denied:    nil,
	Succeeded: nil,
	Failed:    nil,
	Skipped:   nil,
	Cancelled: nil,
}

// Ended reports whether the agent's loop does not wait for the step any more: the state
// is final, or a person settles it later.
func (s State) Ended() bool { return len(transitions[s]) == 0 || s == Unknown || s == Deferred }

// Config holds the dependencies of Steps.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
	Agents   *agent.Service
	Tools    *tool.Registry
	Vault    *vault.Vault
	Redact   *redact.Redactor
	Subtasks *subtask.Service
	Policies *policy.Service
	Plans    *quota.Service
	// Patterns looks for what earlier runs have taught, on behalf of the person behind a task.
	Patterns func(ctx context.Context, t db.Task, query string) ([]tool.PatternHit, error)
	// Node returns the live link to a node, or an error of kind Unavailable.
	Node func(nodeID string) (machine.Link, error)
	// Restore restores the workspace of a task that was resumed from a checkpoint.
	Restore func(ctx context.Context, t db.Task, node machine.Link) error
	// Role returns the current role of a user. For a name that is not a user, it returns
	// unless.
	Role func(ctx context.Context, q *db.Queries, orgID, name, unless string) (string, error)
	// Artifacts brings files from one workspace into another.
	Artifacts Artifacts
	// Outbound sends what agents write to people and other systems.
	Outbound Outbound
	// Images brings container images to nodes.
	Images *image.Images
	// Setups prepares them.
	Setups *setup.Setups
	// Nodes locks nodes for tasks, and Execs runs commands on several of them.
	Nodes *node.Nodes
	Execs *nodeexec.Execs
	// Knowledge are the collections of documents.
	Knowledge *knowledge.Knowledge
	// GoBack brings the workspace of a running task back to what it was at one of its
	// checkpoints, once for a step.
	GoBack func(ctx context.Context, t db.Task, node machine.Link, stepID string, named db.CheckpointNamedRow) (tool.Restored, error)
	// Engine returns the web search engine that an organisation has connected.
	Engine func(ctx context.Context, orgID string) (websearch.Engine, error)
	// Passwords are those of credentials that are typed into pages.
	Passwords credential.Passwords
	// Forge returns how the service that has a repository is reached with a credential.
	Forge func(ctx context.Context, by credential.Caller, repository, name string) (forge.Access, error)
	// Authorities returns the certificates of a jail's authorities for some hosts, in PEM.
	Authorities func(ctx context.Context, orgID, jailID string, hosts []string) ([]string, error)
	// Bindings returns which requests the credentials of an agent's persona are for. With an
	// error that is a fault.Error, it returns those of the credentials that can be used.
	Bindings func(ctx context.Context, orgID, agentName string, want []persona.Credential) ([]*nodev1.Egress_Binding, error)
	// AckOutcome is called after a commit that stored the end of a step on a node: the
	// node may forget the result.
	AckOutcome func(nodeID, execID string)
	// Tracer creates spans; nil for none.
	Tracer *tracing.Tracer
	// Memories is what agents remember.
	Memories *memory.Memories
	// NodeWait is how long Execute waits for a node that is not connected before it
	// returns the step in its current state.
	NodeWait time.Duration
	Log      hclog.Logger
}

// Artifacts brings files from one workspace into another; hub/work/artifact is one.
type Artifacts interface {
	// Deliver copies the artifacts that a task expects, before it begins.
	Deliver(ctx context.Context, t db.Task) error
	// Sync copies files to or from the jail of the task's agent on another node.
	Sync(ctx context.Context, t db.Task, p *persona.Persona, stepID string, s tool.SyncRequest) (tool.SyncResult, error)
}

// Steps is the effect ledger. It is safe for concurrent use.
type Steps struct {
	cfg     Config
	granted *recentGrants
	written *records
	changes *changes
}

// New creates Steps.
func New(cfg Config) *Steps { return &Steps{cfg, newGrants(), newRecords(), newChanges()} }

// Proposal is one tool call, as the model asked for it.
type Proposal struct {
	Turn, CallIndex int32
	CallID          string
	Tool            string
	ArgumentsJSON   string
	Reasoning       string
	// AtOnce reports that the caller executes the call as soon as it is granted. If
	// nothing prevents it, the grant and the start are one transaction.
	AtOnce bool
}

// Propose decides a call and stores the decision with the intent. A call that was
// proposed before is returned in its current state, and refused if its arguments differ.
func (s *Steps) Propose(ctx context.Context, orgID string, le lease.Lease, p Proposal) (db.Step, error) {
	crashpoint.At(crashpoint.BeforeIntent, le.TaskID, "")
	l := free()
	step, done, err := s.grantAlone(ctx, orgID, le, p, l)
	if err == nil && !done {
		step, err = s.proposeIn(ctx, orgID, le, p, l)
	}
	crashpoint.At(crashpoint.AfterIntent, le.TaskID, step.ID)
	return step, err
}

// proposeIn is Propose for a call that grantAlone cannot store.
func (s *Steps) proposeIn(ctx context.Context, orgID string, le lease.Lease, p Proposal, l *looks) (step db.Step, err error) {
	err = s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		l.in(tx)
		t, err := lease.LockTask(ctx, tx, orgID, le)
		if err != nil {
			return err
		}
		if step, err = s.propose(ctx, tx, t, p, false); err != nil {
			return err
		}
		return pauseNext(ctx, tx, t, step)
	})
	return step, err
}

// proposed returns the step of a call that was proposed before.
func proposed(ctx context.Context, tx *event.Tx, t db.Task, p Proposal) (db.Step, error) {
	step, err := tx.StepByCall(ctx, db.StepByCallParams{OrgID: t.OrgID, TaskID: t.ID, Turn: p.Turn, CallIndex: p.CallIndex})
	switch {
	case err != nil:
		return step, fmt.Errorf("find step: %w", err)
	case !bytes.Equal(step.ArgumentsDigest, p.digest()):
		return step, fault.New(fault.Exists, "call %d of turn %d was proposed as step %s with another tool or other arguments",
			p.CallIndex, p.Turn, step.ID).WithObject(step.ID).WithFix("go on from the stored turn")
	}
	return step, nil
}

// digest identifies the call's tool and arguments.
func (p Proposal) digest() []byte {
	digest := sha256.Sum256([]byte(p.Tool + "\x00" + p.ArgumentsJSON))
	return digest[:]
}

// propose stores a new step, or returns the step that the call has already. With atOnce,
// a granted call that only touches the conversation runs here and is stored with its
// outcome, and a call that its node executes is stored as started. The task's row is
// locked.
func (s *Steps) propose(ctx context.Context, tx *event.Tx, t db.Task, p Proposal, atOnce bool) (db.Step, error) {
	d, err := s.draft(ctx, tx.Queries, looksOf(tx), t, p)
	if err != nil {
		return db.Step{}, err
	}
	taken, err := takenOver(ctx, tx.Queries, d.step())
	if err != nil {
		return db.Step{}, err
	}
	params := d.params
	var result tool.Result
	switch record := s.cfg.Tools.Get(p.Tool); {
	case !atOnce || State(params.State) != Granted:
	case taken == "" && s.ready(d.step()):
		params.State, params.Ran = string(Started), true
	case inConversation(record):
		if result, err = record.Run(ctx, tool.Call{StepID: params.ID, ExecID: params.ID, Arguments: d.arguments}); err != nil {
			return db.Step{}, fmt.Errorf("run step %s: %w", params.ID, err)
		}
		params.State, params.ErrorCode, params.Ran, params.Ended = string(outcome(result)), string(result.Code), true, true
		params.Observation = s.cfg.Redact.Org(t.OrgID).String(result.Observation)
		if params.Outcome, err = s.encodeOutcome(t.OrgID, result); err != nil {
			return db.Step{}, fmt.Errorf("encode outcome of step %s: %w", params.ID, err)
		}
	}
	step, err := tx.CreateStep(ctx, params)
	if store.IsNotFound(err) {
		return proposed(ctx, tx, t, p)
	}
	if err != nil {
		return step, fmt.Errorf("store step: %w", err)
	}
	if err := auditDecision(tx, t, step, d.decision); err != nil {
		return step, err
	}
	if step.Checkpoint != "" {
		if err := keepBefore(ctx, tx, t, step); err != nil {
			return step, err
		}
	}
	if d.counted && State(step.State) != Denied {
		if err := tx.CountedCall(ctx, db.CountedCallParams{OrgID: t.OrgID, Tool: p.Tool, Category: step.Category, StepID: step.ID}); err != nil {
			return step, fmt.Errorf("count step %s: %w", step.ID, err)
		}
	}
	if State(params.State) == Waiting {
		return step, s.ask(ctx, tx, t, step, params.DecisionReason)
	}
	drafts := []event.Draft{d.event(step)}
	if step.StartedAt != nil {
		drafts = append(drafts, executing(step))
		tx.AfterCommit(func() { logStart(ctx, s.cfg.Log, step, t.Attempt) })
		if step.FinishedAt != nil {
			drafts = append(drafts, completed(step, result, nil))
		}
	}
	if to := State(step.State); to == Granted || to == Started {
		tx.AfterCommit(func() { s.granted.put(step, t) })
	}
	return step, tx.Append(t.OrgID, t.ID, event.Hub, drafts...)
}

// draft is a step before it is stored.
type draft struct {
	params    db.CreateStepParams
	arguments map[string]any
	decision  policy.Decision
	// counted reports that a limit counts the call, which must then be decided in a
	// transaction.
	counted bool
}

// draft decides a call. The step that it returns is granted, denied, deferred or waiting.
func (s *Steps) draft(ctx context.Context, q *db.Queries, l *looks, t db.Task, p Proposal) (d draft, err error) {
	d.params = db.CreateStepParams{
		ID: ident.New("step"), OrgID: t.OrgID, TaskID: t.ID, Turn: p.Turn, CallIndex: p.CallIndex, CallID: p.CallID,
		Attempt: t.Attempt, Tool: s.cfg.Redact.Org(t.OrgID).String(p.Tool), Reasoning: s.cfg.Redact.Org(t.OrgID).String(p.Reasoning),
		ArgumentsDigest: p.digest(), NodeID: t.NodeID, JailID: t.JailID, State: string(Granted),
	}
	if d.params.ArgumentsSealed, err = s.cfg.Vault.Seal([]byte(p.ArgumentsJSON), d.params.ID); err != nil {
		return d, err
	}
	var decision judgement
	if d.arguments, d.params.Category, decision = s.judge(ctx, q, l, t, p); decision.unmade != nil {
		return d, decision.unmade
	}
	if d.params.Arguments, err = json.Marshal(s.cfg.Redact.Org(t.OrgID).Map(d.arguments)); err != nil {
		return d, fmt.Errorf("encode arguments: %w", err)
	}
	if decision.machine != nil {
		d.params.NodeID, d.params.JailID = &decision.machine.NodeID, nodelink.HostJail
	}
	d.params.OnNode = onNode(s, db.Step{Tool: p.Tool})
	d.decision, d.counted, d.params.Checkpoint = decision.policy, decision.counted, decision.checkpoint
	if d.params.Decision, err = json.Marshal(d.decision); err != nil {
		return d, fmt.Errorf("encode a decision: %w", err)
	}
	d.params.DecisionReason = decision.reason
	switch {
	case decision.deferred:
		d.params.State, d.params.Ended = string(Deferred), true
		d.params.DecisionReason = "deferred: the run is in review mode, and this would leave its workspace"
		d.params.Observation = "deferred: this call leaves the workspace, so it is made when a person accepts your work, once and as it is. " +
			"You get no result of it. Go on with the rest as if it were to succeed; say in your summary what it is for."
	case decision.ask != "":
		d.params.State, d.params.DecisionReason = string(Waiting), decision.ask
	case decision.denied != nil:
		d.params.State, d.params.ErrorCode, d.params.Ended = string(Denied), string(decision.denied.Code), true
		d.params.DecisionReason = decision.denied.Message
		d.params.Observation = s.cfg.Redact.Org(t.OrgID).String("error " + string(decision.denied.Code) + ": " + decision.denied.Explanation())
	}
	return d, nil
}

// event returns the event of the decision on a step.
func (d draft) event(step db.Step) event.Draft {
	kind := eventkind.ToolSelected
	switch State(step.State) {
	case Denied:
		kind = eventkind.ToolDenied
	case Deferred:
		kind = eventkind.ToolDeferred
	}
	return event.Draft{Type: kind, Payload: map[string]any{
		"step_id": step.ID, "number": step.Number, "tool": step.Tool, "arguments": brief(d.arguments),
		"reason": step.DecisionReason, "turn": step.Turn,
	}}
}

// inConversation reports whether a tool only touches the conversation and asks no person.
func inConversation(record *tool.Tool) bool {
	return record != nil && record.Place == deckhandv1.ToolPlace_TOOL_PLACE_WORKER && !record.Asks
}

// Get returns a step by its id.
func (s *Steps) Get(ctx context.Context, orgID, id string) (db.Step, error) {
	step, err := s.cfg.Store.GetStep(ctx, db.GetStepParams{OrgID: orgID, ID: id})
	if store.IsNotFound(err) {
		return step, fault.New(fault.NotFound, "there is no step %q", id).WithObject(id)
	}
	return step, err
}

// Find returns the id of the step that ref identifies, among the steps of tasks that v
// may see: an id or a unique prefix.
func (s *Steps) Find(ctx context.Context, v task.Viewer, ref string) (string, error) {
	rows, err := s.cfg.Store.FindSteps(ctx, db.FindStepsParams{OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, Ref: ref, Prefix: store.Prefix("step", ref)})
	return store.One("step", ref, rows, err)
}
