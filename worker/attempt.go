package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.opentelemetry.io/otel/attribute"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/logging"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/provider"
	"github.com/deckhand-sh/deckhand/internal/traceparent"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/loop"
)

const (
	// startPatience is how long a worker waits for a node before it hands the
	// task back.
	startPatience = 2 * time.Minute
	// releaseTimeout bounds the handing back of a task at a stop.
	releaseTimeout = 5 * time.Second
)

// errStopping ends tasks when the worker stops.
var errStopping = errors.New("the worker is stopping")

// work runs a claimed task until it ends, its lease ends, or the worker's time to stop is
// over: then the task is returned to the queue. ctx is the worker's: once it has ended, no
// task is begun.
func (w *Worker) work(ctx context.Context, claim *deckhandv1.ClaimTaskResponse, place *slot, sent time.Time) {
	task := claim.GetTask()
	base := logging.WithCorrelation(context.WithoutCancel(ctx), task.GetCorrelationId())
	base, ended := w.cfg.Tracer.Span(traceparent.With(base, claim.GetTraceparent()), "invoke_agent "+task.GetAgentName(),
		attribute.String("gen_ai.operation.name", "invoke_agent"), attribute.String("gen_ai.agent.name", task.GetAgentName()),
		attribute.String("deckhand.task.id", task.GetId()), attribute.Int("deckhand.attempt", int(claim.GetLease().GetAttempt())))
	defer ended(nil)
	log := logging.From(base, w.cfg.Log).With("task_id", task.GetId(), "attempt", claim.GetLease().GetAttempt())

	leased, h := w.leases.add(base, claim.GetLease(), sent, claim.GetLeaseTtl().AsDuration())
	defer w.leases.drop(h)
	running, stop := context.WithCancelCause(leased)
	defer stop(nil)
	if ctx.Err() != nil {
		w.release(leased, h.lease, errStopping.Error(), log)
		return
	}
	defer context.AfterFunc(w.ending, func() { stop(errStopping) })()

	log.Info("claimed", "agent", task.GetAgentName(), "goal_bytes", len(task.GetGoal()))
	outcome, err := w.runAttempt(running, claim, place, log)
	var gone errGone
	switch {
	case errors.As(err, &gone), errors.Is(err, loop.ErrLeaseLost), errors.Is(err, errOutdated), leased.Err() != nil:
		log.Info("stopped without a further write", "cause", err)
		cause := "gone"
		if errors.Is(err, errOutdated) {
			cause = "outdated"
		}
		w.metrics.lost.WithLabelValues(cause).Inc()
		return
	case errors.Is(err, errStopping):
		w.release(leased, h.lease, err.Error(), log)
		return
	case errors.As(err, new(notNow)):
		w.release(leased, h.lease, err.Error(), log)
		return
	case err != nil:
		log.Error("the task failed", "error", err)
		outcome = failed(err)
	}
	if err := w.finish(running, h.lease, outcome, log); err != nil {
		// If finish could not report the end, the lease expires instead.
		log.Warn("the end of a task was not stored", "error", err)
		if errors.Is(err, errStopping) {
			w.release(leased, h.lease, errStopping.Error(), log)
		}
	}
}

// notNow is an error for which the task is handed back: another time or another
// worker may do better.
type notNow struct{ error }

// Unwrap returns the cause.
func (n notNow) Unwrap() error { return n.error }

// runAttempt makes what a run needs and runs it.
func (w *Worker) runAttempt(ctx context.Context, claim *deckhandv1.ClaimTaskResponse, place *slot, log hclog.Logger) (*loop.Outcome, error) {
	p, err := persona.Parse(claim.GetTask().GetAgentName()+".md", []byte(claim.GetMarkdown()), persona.Vocabulary{})
	if err != nil {
		return nil, fault.New(fault.Invalid, "the persona of version %d cannot be read", claim.GetTask().GetAgentVersion()).
			WithCode(fault.TaskParsing).WithFix("apply the persona again: %s", err).WithCause(err)
	}
	p.Limits = lifted(p.Limits, claim.GetTask().GetOverride().GetLimits())
	m, err := w.model(p, claim)
	if err != nil {
		return nil, err
	}
	summarizer, err := w.summarizer(p, claim)
	if err != nil {
		return nil, err
	}
	started := &deckhandv1.StartTaskResponse{}
	if !claim.GetStarted() {
		if err := w.lend(place, func() (err error) {
			started, err = w.startTask(ctx, claim.GetLease(), log)
			return err
		}); err != nil {
			return nil, err
		}
	}
	claim.Tools = append(claim.GetTools(), started.GetTools()...)
	project := loop.Project{Instructions: started.GetInstructions(), Problems: started.GetProblems(), Branch: started.GetGitBranch(),
		GitStatus: started.GetGitStatus(), Platform: started.GetPlatform()}
	for _, s := range started.GetSkills() {
		project.Skills = append(project.Skills, loop.Skill{Name: s.GetName(), Description: s.GetDescription(), Path: s.GetPath()})
	}
	return loop.Run(ctx, loop.Config{
		Hub: w.client.Workers, Model: m, Summarizer: summarizer, Persona: p, Claim: claim, Scratchpad: started.GetScratchpad(), Project: project, Log: log,
		ContextTokens: contextTokens(p, claim.GetTask()),
	})
}

// contextTokens returns how many tokens all models that a task may use can read; 0 if that is
// not known.
func contextTokens(p *persona.Persona, task *deckhandv1.Task) int {
	models := append([]persona.Fallback{{Provider: cmp.Or(task.GetProvider(), p.Provider), Model: cmp.Or(task.GetModel(), p.Model)}}, p.Fallbacks...)
	least := int64(0)
	for _, m := range models {
		if known := provider.ModelInfo(m.Provider, m.Model).ContextTokens; known > 0 && (least == 0 || known < least) {
			least = known
		}
	}
	return int(least)
}

// lifted returns a persona's limits with those that an admin lets this run have.
func lifted(l persona.Limits, by *deckhandv1.TaskLimits) persona.Limits {
	l.Iterations = cmp.Or(int(by.GetIterations()), l.Iterations)
	l.ActiveTime = cmp.Or(by.GetActiveTime().AsDuration(), l.ActiveTime)
	l.Tokens = cmp.Or(by.GetTokens(), l.Tokens)
	l.Calls = cmp.Or(by.GetCalls(), l.Calls)
	l.CostUSD = cmp.Or(float64(by.GetCostMicros())/1e6, l.CostUSD)
	l.Files = cmp.Or(by.GetFiles(), l.Files)
	l.FileSize = cmp.Or(by.GetFileSizeBytes(), l.FileSize)
	return l
}

// startTask has the jail made.
func (w *Worker) startTask(ctx context.Context, lease *deckhandv1.Lease, log hclog.Logger) (*deckhandv1.StartTaskResponse, error) {
	patience := time.Now().Add(startPatience)
	for failures := 1; ; failures++ {
		res, err := w.client.Workers.StartTask(ctx, &deckhandv1.StartTaskRequest{Lease: lease})
		if err == nil {
			return res, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		e := fault.As(err)
		switch {
		case e.Code == fault.LeaseEnded:
			return nil, fmt.Errorf("start the task: %w", loop.ErrLeaseLost)
		case e.Code == fault.FileConflict:
			// A person must decide: the hub creates an item for that and
			// retries later.
			return nil, fmt.Errorf("start the task: %w", err)
		case e.Kind == fault.Unavailable || e.Kind == fault.Deadline || e.Kind == fault.Aborted || e.Kind == fault.Exhausted:
			if time.Now().After(patience) {
				return nil, notNow{fmt.Errorf("start the task: %w", err)}
			}
		case e.Kind == fault.Internal && failures <= 3:
		default:
			return nil, fmt.Errorf("start the task: %w", err)
		}
		wait := w.retry.Delay(failures)
		log.Warn("the task cannot start yet; trying again", "error", e.Message, "wait", wait)
		if err := backoff.Wait(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// failed makes an outcome of an error. The hub tries again later what may pass.
func failed(err error) *loop.Outcome {
	out := &loop.Outcome{
		State: deckhandv1.TaskState_TASK_STATE_FAILED, Message: err.Error(),
		Reason: err.Error() + ": see the worker's log",
	}
	if e := fault.As(err); e != nil {
		out.Code, out.Message = e.Code, e.Message
		switch e.Kind {
		case fault.Internal, fault.Unavailable, fault.Deadline, fault.Exhausted, fault.Aborted:
			out.Transient = true
		}
		if e.Fix != "" {
			out.Reason = e.Message + ": " + e.Fix
		}
	}
	return out
}

// finish stores where the task ended, or that it waits for a person, trying again for as long as the lease
// lasts.
func (w *Worker) finish(ctx context.Context, lease *deckhandv1.Lease, out *loop.Outcome, log hclog.Logger) error {
	waits := out.State == deckhandv1.TaskState_TASK_STATE_AWAITING_APPROVAL
	for failures := 1; ; failures++ {
		var err error
		if waits {
			_, err = w.client.Workers.YieldTask(ctx, &deckhandv1.YieldTaskRequest{Lease: lease, Events: out.Events})
		} else {
			_, err = w.client.Workers.FinishTask(ctx, &deckhandv1.FinishTaskRequest{
				Lease: lease, State: out.State, Reason: cut(out.Reason, 4096), Summary: cut(out.Summary, 65536),
				ErrorCode: string(out.Code), ErrorMessage: cut(out.Message, 8192), Events: out.Events,
				Checkpoint: out.Checkpoint, Progress: out.Progress,
				Limit:     out.Limit,
				Transient: out.Transient, RetryAfter: durationpb.New(out.RetryAfter), Outage: out.Outage,
			})
		}
		if err == nil {
			log.Info("ended", "state", out.State.String(), "error_code", out.Code)
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		e := fault.As(err)
		if waits && e.Code == fault.LeaseEnded {
			// The hub parked the task by itself, or has an earlier try of this.
			log.Info("stopped without a further write", "cause", err)
			return nil
		}
		switch e.Kind {
		case fault.Precondition, fault.Invalid, fault.NotFound, fault.Denied:
			return fmt.Errorf("finish the task: %w", err)
		}
		if err := backoff.Wait(ctx, w.retry.Delay(failures)); err != nil {
			return err
		}
	}
}

// release hands a task back.
func (w *Worker) release(ctx context.Context, lease *deckhandv1.Lease, reason string, log hclog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	for failures := 1; ; failures++ {
		_, err := w.client.Workers.ReleaseTask(ctx, &deckhandv1.ReleaseTaskRequest{
			Lease: lease, Reason: cut(reason, 4096),
		})
		if err == nil {
			log.Info("handed back", "reason", reason)
			return
		}
		if ctx.Err() != nil || fault.Is(err, fault.Precondition) || backoff.Wait(ctx, w.retry.Delay(failures)) != nil {
			log.Warn("a task was not handed back: its lease will end by itself", "error", err)
			return
		}
	}
}

// cut bounds a text to n bytes, at a character.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "")
}
