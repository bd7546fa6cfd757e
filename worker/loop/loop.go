// Package loop is the agent loop. It runs one task through iterations of seven
// phases (analyze_context, update_plan, think, select_tool, execute_action,
// observe_result, iterate); each phase is recorded as an event with its
// duration.
//
// One iteration is one turn of the model, and both have the same number. The
// loop holds no state that it cannot lose: a turn is stored before any of its
// calls is proposed, the hub decides and records a call before it runs, and an
// iteration ends with a checkpoint. A run is therefore a function of what the
// hub stored. After a crash, Run on any worker loads the last turn, re-attaches
// to those of its calls that were started, makes exactly those that were not,
// and continues.
//
// If the lease is lost, Run stops without writing anything more and returns
// ErrLeaseLost. If the hub cannot be reached, Run retries with jittered delays
// until its context ends, which happens no later than the lease.
package loop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
)

// ErrLeaseLost reports that the hub refused a write because the lease has
// ended: the task may belong to another worker, and nothing more may be
// written.
var ErrLeaseLost = errors.New("the lease on the task has ended")

// Hub is what the loop asks of the hub. Errors are *fault.Error.
type Hub interface {
	RecordEvents(context.Context, *deckhandv1.RecordEventsRequest) (*deckhandv1.RecordEventsResponse, error)
	PublishThinking(context.Context, *deckhandv1.PublishThinkingRequest) (*deckhandv1.PublishThinkingResponse, error)
	RecordTurn(context.Context, *deckhandv1.RecordTurnRequest) (*deckhandv1.RecordTurnResponse, error)
	ProposeStep(context.Context, *deckhandv1.ProposeStepRequest) (*deckhandv1.ProposeStepResponse, error)
	ExecuteStep(context.Context, *deckhandv1.ExecuteStepRequest) (*deckhandv1.ExecuteStepResponse, error)
	SaveCheckpoint(context.Context, *deckhandv1.SaveCheckpointRequest) (*deckhandv1.SaveCheckpointResponse, error)
}

// Config is one attempt at a task.
type Config struct {
	Hub   Hub
	Model model.Model
	// Summarizer writes the summaries; nil for Model.
	Summarizer model.Model
	Persona    *persona.Persona
	// Claim is what the hub answered: the lease, the task, the tools, and what
	// earlier attempts left.
	Claim *deckhandv1.ClaimTaskResponse
	// Scratchpad is the current scratchpad of the workspace; empty if there is
	// none.
	Scratchpad string
	// Project is what the workspace says to agents.
	Project Project
	// ContextTokens is how many tokens the model takes; 0 for 200 000.
	ContextTokens int
	// Log may be nil.
	Log hclog.Logger

	// ThinkingInterval is how often streamed thinking is passed on; 0 for
	// 100 ms.
	ThinkingInterval time.Duration
	// FlushDelay is how long events wait for a call that takes them along before
	// they are stored by themselves; 0 for 25 ms.
	FlushDelay time.Duration
	// Backoff spreads repeated calls to a hub that cannot be reached; the zero
	// value is backoff's own.
	Backoff backoff.Policy
	// Now returns the time; nil for time.Now.
	Now func() time.Time
}

// Outcome is where a run ended.
type Outcome struct {
	// State is succeeded, failed or paused, for FinishTask. It is
	// awaiting_approval when a call waits for a person: then YieldTask, and the
	// hub knows what for.
	State deckhandv1.TaskState
	// Reason is for people and says what they can do.
	Reason  string
	Summary string
	// Code and Message are set when State is not succeeded.
	Code    fault.Code
	Message string
	// Limit is the kind of the limit that ended the run; empty for none.
	Limit string
	// Transient says of a failure that trying again later may help, not sooner
	// than RetryAfter.
	Transient  bool
	RetryAfter time.Duration
	// Outage is the model that did not answer, if that was the reason.
	Outage *deckhandv1.ModelOutage
	// Events close the history.
	Events []*deckhandv1.EventDraft
	// Checkpoint and Progress are those of the iteration that ended the run;
	// nil when none did.
	Checkpoint *deckhandv1.Checkpoint
	Progress   float64
}

// Run runs the task until it ends. The error is the cause of the context's end,
// ErrLeaseLost, or one after which continuing makes no sense.
func Run(ctx context.Context, cfg Config) (*Outcome, error) {
	if cfg.Log == nil {
		cfg.Log = hclog.NewNullLogger()
	}
	if cfg.ThinkingInterval == 0 {
		cfg.ThinkingInterval = 100 * time.Millisecond
	}
	if cfg.FlushDelay == 0 {
		cfg.FlushDelay = 25 * time.Millisecond
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Summarizer == nil {
		cfg.Summarizer = cfg.Model
	}
	r, err := newRun(cfg)
	if err != nil {
		return nil, err
	}
	return r.loop(ctx)
}

// run is one attempt in progress. It is used by one goroutine; only outbox and
// hub are used by several.
type run struct {
	cfg   Config
	task  *deckhandv1.Task
	hub   *caller
	out   *outbox
	phase *phases
	tools map[string]*deckhandv1.Tool
	// system is the system prompt.
	system string
	// known is what is remembered.
	known knownText
	// turns are all finished turns: turns[i] is turn i+1.
	turns []*deckhandv1.Turn
	// steps are the calls that the hub knows of.
	steps map[callKey]*deckhandv1.Step
	// told contains people's messages, by the turn after which the model
	// receives them.
	told map[int32][]*deckhandv1.TaskMessage
	// began is the turn after which this attempt begins, and environment tells the model where
	// it is then.
	began       int32
	environment string
	state       state
	// window is what the model sees of them.
	window window
	// offered are the tools that the model can see; always the same.
	offered []*deckhandv1.Tool
	// planned is the plan in force after some turns.
	planned planState
	// memory is the first message; nil when it has to be made.
	memory *memory
	// forgot is the last turn whose results the window has dropped.
	forgot int32
	// since is when time was last counted into state.Active.
	since time.Time
}

// callKey names a call forever: the turn, from 1, and its place in it, from 0.
type callKey struct {
	turn, index int32
}

func newRun(cfg Config) (*run, error) {
	claim := cfg.Claim
	r := &run{
		cfg: cfg, task: claim.GetTask(),
		hub:   &caller{hub: cfg.Hub, lease: claim.GetLease(), backoff: cfg.Backoff, log: cfg.Log},
		tools: map[string]*deckhandv1.Tool{}, steps: map[callKey]*deckhandv1.Step{},
		told:  map[int32][]*deckhandv1.TaskMessage{},
		turns: claim.GetTurns(), since: cfg.Now(),
	}
	r.out = &outbox{hub: r.hub, delay: cfg.FlushDelay}
	r.phase = &phases{out: r.out, now: cfg.Now}
	for _, tool := range claim.GetTools() {
		r.tools[tool.GetName()] = tool
	}
	for i, turn := range r.turns {
		if turn.GetTurn() != int32(i+1) {
			return nil, fault.New(fault.Internal, "the hub answered turn %d of task %s where %d was due",
				turn.GetTurn(), r.task.GetId(), i+1).WithCode(fault.ResumeFailed)
		}
	}
	r.hear(claim.GetMessages())
	for _, step := range claim.GetSteps() {
		r.steps[callKey{step.GetTurn(), step.GetCallIndex()}] = step
	}
	var err error
	if r.state, err = decodeState(claim.GetCheckpoint()); err != nil {
		return nil, fault.New(fault.Internal, "the checkpoint of task %s cannot be read", r.task.GetId()).
			WithCode(fault.ResumeFailed).WithCause(err)
	}
	r.offered = atOnce(claim.GetTools())
	r.system = systemPrompt(cfg.Persona, r.tools, deferred(claim.GetTools()))
	if r.state.Opening == "" {
		r.state.Opening = opening(r.task, claim.GetPattern(), cfg.Project, cfg.Scratchpad)
	}
	r.known = knownFrom(claim.GetMemories())
	r.began = int32(len(r.turns)) //nolint:gosec // at most 1 000
	r.environment = environment(cfg.Now(), cfg.Persona, cfg.Project, claim.GetLease().GetAttempt())
	if int(r.state.Summary.UpTo) > len(r.turns) {
		return nil, fault.New(fault.Internal, "the summary of task %s covers %d turns, and there are %d",
			r.task.GetId(), r.state.Summary.UpTo, len(r.turns)).WithCode(fault.ResumeFailed)
	}
	r.window = newWindow(cfg.Persona.Context.SummarizeAt, cfg.ContextTokens)
	r.window.measure(r.system, r.offered)
	return r, nil
}

func (r *run) loop(ctx context.Context) (*Outcome, error) {
	defer r.out.stop()
	r.begin()
	for {
		iteration := r.state.Iteration + 1
		r.phase.begin(iteration)
		if out := r.limitReached(); out != nil {
			return r.finish(out), nil
		}
		var turn *deckhandv1.Turn
		if len(r.turns) >= int(iteration) {
			// An earlier attempt got this far.
			turn = r.turns[iteration-1]
			r.phase.resume()
		} else {
			var out *Outcome
			var err error
			if turn, out, err = r.nextTurn(ctx, iteration); err != nil {
				return nil, err
			}
			if out != nil {
				return r.finish(out), nil
			}
		}
		switch err := r.act(ctx, turn); {
		case errors.Is(err, errWaits):
			return &Outcome{State: deckhandv1.TaskState_TASK_STATE_AWAITING_APPROVAL, Events: r.out.take()}, nil
		case err != nil:
			return nil, err
		}
		out, err := r.close(ctx, turn)
		if err != nil {
			return nil, err
		}
		if out != nil {
			return r.finish(out), nil
		}
	}
}

// begin notes that an attempt takes the task up.
func (r *run) begin() {
	payload := map[string]any{
		"attempt": r.cfg.Claim.GetLease().GetAttempt(), "provider": r.provider(), "model": r.modelName(),
		"scripted":  r.provider() == persona.ProviderScript,
		"iteration": r.state.Iteration, "turns": len(r.turns), "tools": toolNames(r.cfg.Claim.GetTools()),
		"limits": limitsPayload(r.cfg.Persona.Limits), "context_limit": r.window.limit,
	}
	kind := eventkind.ExecutionStarted
	if r.cfg.Claim.GetLease().GetAttempt() > 1 {
		kind = eventkind.ExecutionResumed
	}
	r.out.add(kind, payload)
}

func (r *run) provider() string {
	if p := r.task.GetProvider(); p != "" {
		return p
	}
	return r.cfg.Persona.Provider
}

func (r *run) modelName() string {
	if m := r.task.GetModel(); m != "" {
		return m
	}
	return r.cfg.Persona.Model
}

// nextTurn asks the model and stores its turn: phases 1 to 3, and the choice of
// phase 4, which is stored in the same transaction as the turn.
func (r *run) nextTurn(ctx context.Context, iteration int32) (*deckhandv1.Turn, *Outcome, error) {
	r.phase.enter("analyze_context", r.gathered())
	request := r.request()
	request.FailedOver = r.failedOver(ctx)

	r.phase.enter("update_plan", r.planPhase())

	r.phase.enter("think", map[string]any{"messages": len(request.Messages)})
	r.out.flushSoon(ctx)
	stream := startThinking(ctx, r.hub, iteration, r.cfg.ThinkingInterval)
	turn, err := r.cfg.Model.Generate(ctx, request, stream.add)
	for limit := r.window.limit / 2; tooLong(err) && limit > 1000; limit /= 2 {
		// The provider counts otherwise than it said, or takes less than is known
		// of it: less goes along.
		before := r.state.Summary.UpTo
		if r.compact(ctx, limit); r.state.Summary.UpTo == before {
			continue // all of it would stay still
		}
		request = r.request()
		request.FailedOver = r.failedOver(ctx)
		turn, err = r.cfg.Model.Generate(ctx, request, stream.add)
	}
	stream.stop()
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		if e := model.AsError(err); e != nil {
			if e.Code == fault.LeaseEnded {
				return nil, nil, fmt.Errorf("ask the model: %w", ErrLeaseLost)
			}
			return nil, r.modelFailed(e), nil
		}
		return nil, nil, fmt.Errorf("ask the model: %w", err)
	}
	r.reported(turn)
	normalise(turn, iteration, r.cfg.Claim.GetLease().GetAttempt())
	turn.Environment = r.environmentAfter(iteration - 1)
	r.out.add(eventkind.Thinking, thinkingPayload(turn))
	r.phase.enter("select_tool", map[string]any{"calls": len(model.Calls(turn))})
	for i, call := range model.Calls(turn) {
		if reject := r.reject(turn, i); reject != nil {
			r.out.add(eventkind.ToolRejected, map[string]any{
				"turn": iteration, "call_index": i, "tool": call.GetName(), "error_code": string(reject.Code), "message": reject.Error(),
			})
		}
	}
	return turn, nil, r.recordTurn(ctx, turn)
}

// failedOver reports that another model continues.
func (r *run) failedOver(ctx context.Context) func(model.Failover) {
	return func(f model.Failover) {
		r.out.add(eventkind.ModelFailover, map[string]any{
			"from_provider": f.FromProvider, "from_model": f.FromModel, "to_provider": f.ToProvider, "to_model": f.ToModel,
			"reason": f.Reason,
		})
		r.out.flushSoon(ctx)
	}
}

// recordTurn stores a turn and asks the hub to decide its calls in the same
// request.
func (r *run) recordTurn(ctx context.Context, turn *deckhandv1.Turn) error {
	propose := r.decidable(turn)
	var stored *deckhandv1.RecordTurnResponse
	err := r.out.with(ctx, func(events []*deckhandv1.EventDraft) error {
		return r.hub.do(ctx, "store the turn", func(ctx context.Context) error {
			res, err := r.hub.hub.RecordTurn(ctx, &deckhandv1.RecordTurnRequest{
				Lease: r.hub.lease, Turn: turn, Events: events, Propose: propose,
			})
			if err == nil {
				stored = res
			}
			return err
		})
	})
	if err != nil {
		return err
	}
	if usage := stored.GetTurn().GetUsage(); usage != nil {
		turn.Usage = usage // the hub knows what it cost
	}
	for _, step := range stored.GetSteps() {
		r.steps[callKey{step.GetTurn(), step.GetCallIndex()}] = step
	}
	turn.CreatedAt = stored.GetTurn().GetCreatedAt()
	r.turns = append(r.turns, turn)
	r.checkCache(turn)
	return nil
}

// close is phases 6 and 7: it examines the results of the turn, and stores the
// checkpoint or, if the run is over, returns the outcome with the checkpoint in
// it.
func (r *run) close(ctx context.Context, turn *deckhandv1.Turn) (*Outcome, error) {
	results := r.results(turn)
	r.phase.enter("observe_result", observed(results))
	plan := r.planUpdated(turn)
	if plan != nil {
		r.out.add(eventkind.PlanUpdated, plan.payload(turn.GetTurn()))
	}
	r.phase.enter("iterate", nil)
	out := r.decide(turn)
	if out == nil {
		out = r.guarded(turn, results)
	}
	reflection := r.reflect(turn, results, out)
	r.state.Iteration = turn.GetTurn()
	r.state.Progress = reflection.progress
	r.countTime()
	r.warn()
	if out == nil {
		r.tidy(ctx, turn)
	}
	state, err := r.state.encode()
	if err != nil {
		return nil, err
	}
	r.out.add(eventkind.ProgressUpdate, map[string]any{"iteration": turn.GetTurn(), "progress": reflection.progress, "next_action": reflection.next})
	r.out.add(eventkind.IterationComplete, map[string]any{
		"iteration": turn.GetTurn(), "phases_ms": r.phase.end(), "reflection": reflection.payload(),
		"usage": usagePayload(turn.GetUsage()),
	})
	r.out.add(eventkind.CheckpointCreated, map[string]any{"iteration": turn.GetTurn(), "reason": "auto"})
	checkpoint := &deckhandv1.Checkpoint{Iteration: turn.GetTurn(), State: state}
	if out != nil {
		// It is stored with the end of the run.
		out.Checkpoint, out.Progress = checkpoint, reflection.progress
		return out, nil
	}
	return nil, r.out.with(ctx, func(events []*deckhandv1.EventDraft) error {
		return r.hub.do(ctx, "store the checkpoint", func(ctx context.Context) error {
			res, err := r.hub.hub.SaveCheckpoint(ctx, &deckhandv1.SaveCheckpointRequest{
				Lease: r.hub.lease, Checkpoint: checkpoint, Progress: reflection.progress, Events: events,
			})
			if err == nil {
				r.hear(res.GetMessages())
			}
			return err
		})
	})
}

// tidy makes room for the next turn when the transcript has grown too large, and
// lets go of what only the loop itself would need again.
func (r *run) tidy(ctx context.Context, turn *deckhandv1.Turn) {
	r.request()
	if estimate := r.window.meter.Estimate(r.window.asked); estimate >= r.window.full() {
		r.compact(ctx, r.window.limit)
	}
	r.forget(turn)
}

// decide returns how the run ends with this turn, or nil when it continues.
func (r *run) decide(turn *deckhandv1.Turn) *Outcome {
	if out := r.completed(turn); out != nil {
		return out
	}
	if turn.GetStopReason() == model.StopRefusal {
		return r.modelFailed(&model.Error{Kind: model.Refused, Provider: r.provider(), Message: "the model refused to go on"})
	}
	if len(model.Calls(turn)) > 0 || r.silentTurns(turn) < 2 {
		return nil
	}
	if turn.GetStopReason() == model.StopMaxTokens {
		return &Outcome{
			State:   deckhandv1.TaskState_TASK_STATE_FAILED,
			Code:    fault.ModelUnavailable,
			Message: fmt.Sprintf("the model's answers were cut off at max_tokens (%d) twice in a row", r.cfg.Persona.MaxTokens),
			Reason:  "raise max_tokens in the persona, then run the task again",
		}
	}
	summary := turnText(turn)
	if summary == "" {
		return &Outcome{
			State: deckhandv1.TaskState_TASK_STATE_FAILED, Code: fault.GivenUp,
			Message: "the model answered nothing twice in a row",
			Reason:  "the model answered nothing twice in a row: change the goal or the model, then run the task again",
		}
	}
	return &Outcome{
		State: deckhandv1.TaskState_TASK_STATE_SUCCEEDED, Summary: summary,
		Reason: "the agent stopped calling tools, without complete_task",
	}
}

// silentTurns counts the turns without a call that end with turn.
func (r *run) silentTurns(turn *deckhandv1.Turn) int {
	n := 0
	for i := turn.GetTurn() - 1; i >= 0 && len(model.Calls(r.turns[i])) == 0; i-- {
		n++
	}
	return n
}

// finish adds the closing event.
func (r *run) finish(out *Outcome) *Outcome {
	payload := map[string]any{
		"iterations": r.state.Iteration, "usage": usagePayload(r.usage()), "active_ms": r.state.Active.Milliseconds(),
	}
	switch out.State {
	case deckhandv1.TaskState_TASK_STATE_SUCCEEDED:
		payload["summary"] = out.Summary
		r.out.add(eventkind.ExecutionCompleted, payload)
	case deckhandv1.TaskState_TASK_STATE_PAUSED:
		payload["error_code"], payload["message"], payload["recoverable"] = string(out.Code), out.Message, true
		r.out.add(eventkind.ExecutionPaused, payload)
	default:
		payload["error_code"], payload["message"], payload["recoverable"] = string(out.Code), out.Message, out.Transient
		if out.Summary != "" {
			payload["summary"] = out.Summary
		}
		r.out.add(eventkind.ExecutionFailed, payload)
	}
	out.Events = r.out.take()
	return out
}

// tooLong reports whether a model does not take so long a transcript.
func tooLong(err error) bool {
	e := model.AsError(err)
	return e != nil && e.Kind == model.ContextTooLong
}

// modelFailed returns what a model's error does to the task: one that a person
// must mend pauses it, any other fails it.
func (r *run) modelFailed(e *model.Error) *Outcome {
	if e.Kind == model.Budget && e.Own {
		// The task's own budget is its limit of cost.
		return r.atLimit(limit{"cost_usd", fault.BudgetLimit, r.cfg.Persona.Limits.CostUSD, float64(r.usage().GetCostMicros()) / 1e6, usd}, e.Message)
	}
	f := e.Fault()
	out := &Outcome{
		State: deckhandv1.TaskState_TASK_STATE_FAILED, Code: f.Code, Message: f.Message,
		Reason: f.Message + ": " + f.Fix, Transient: e.Retryable(), RetryAfter: e.RetryAfter,
	}
	if e.Retryable() && !e.Hub && e.Code == "" && e.Model != "" { // the provider's own
		out.Outage = &deckhandv1.ModelOutage{Provider: e.Provider, Model: e.Model}
	}
	switch e.Kind {
	case model.Auth, model.NoCredential, model.Quota, model.Budget:
		out.State = deckhandv1.TaskState_TASK_STATE_PAUSED
		if e.Kind != model.Quota {
			out.RetryAfter = 0
		}
	}
	if e.Kind == model.Quota && e.RetryAfter > 0 {
		out.Reason = fmt.Sprintf("%s; it goes on by itself at %s, when the quota is there again, or sooner when you add credit at %s and resume it (deckhand task resume %s)",
			f.Message, r.cfg.Now().Add(e.RetryAfter).UTC().Format(time.RFC3339), e.Provider, r.task.GetId())
	}
	return out
}
