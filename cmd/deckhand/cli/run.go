package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// maxInput bounds an input file, in bytes; the hub refuses longer ones.
const maxInput = 16 << 20

// runOptions are the flags of run.
type runOptions struct {
	title    string
	priority int32
	after    []string
	assign   string
	context  string
	inputs   []string
	// artifacts are files of other tasks, as TASK:PATH.
	artifacts []string
	// shared are such files for reading only.
	shared  []string
	wait    bool
	watch   bool
	timeout time.Duration
	with    runOverride
}

// runOverride are the flags of what one run has instead of what its persona
// says.
type runOverride struct {
	mode, provider, model string
	budget                float64
	limits                map[string]string
}

func (o *runOverride) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.mode, "mode", "", "autonomous, supervised or review, for this run; a less careful one than the persona's is for admins")
	cmd.Flags().StringVar(&o.provider, "provider", "", "use this provider's model for this run; --model goes with it")
	cmd.Flags().StringVar(&o.model, "model", "", "use this model for this run; --provider goes with it")
	cmd.Flags().Float64Var(&o.budget, "budget", 0, "what this run may cost, in US dollars; more than the persona's is for admins")
	cmd.Flags().Lookup("budget").DefValue = "" // the persona's
	cmd.Flags().StringToStringVar(&o.limits, "limit", nil, "raise a limit of this run, for example iterations=100 or active_time=2h; more than the persona's is for admins")
}

// message returns nil where the run is as the persona says.
func (o *runOverride) message(cmd *cobra.Command) (*deckhandv1.TaskOverride, error) {
	if (o.provider == "") != (o.model == "") {
		return nil, usage(cmd, "--provider and --model go together")
	}
	out := &deckhandv1.TaskOverride{Mode: o.mode, Provider: o.provider, Model: o.model}
	var err error
	if out.Limits, err = limitsOf(cmd, o.limits); err != nil {
		return nil, err
	}
	if cmd.Flags().Changed("budget") {
		switch {
		case o.budget <= 0 || o.budget > 1_000_000:
			return nil, usage(cmd, "--budget is %g, give dollars above 0, at most 1000000", o.budget)
		case out.GetLimits().GetCostMicros() > 0:
			return nil, usage(cmd, "--budget and --limit cost_usd are the same, give one of them")
		case out.GetLimits() == nil:
			out.Limits = &deckhandv1.TaskLimits{}
		}
		out.Limits.CostMicros = int64(math.Round(o.budget * 1e6))
	}
	if proto.Equal(out, &deckhandv1.TaskOverride{}) {
		return nil, nil
	}
	return out, nil
}

// given returns the files of other tasks that the task begins with.
func (o runOptions) given(cmd *cobra.Command) ([]*deckhandv1.TaskArtifacts, error) {
	copied, err := readArtifacts(cmd, "artifact", o.artifacts, false)
	if err != nil {
		return nil, err
	}
	shared, err := readArtifacts(cmd, "share", o.shared, true)
	return append(copied, shared...), err
}

func (a *app) runCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use: "run [AGENT] [GOAL]", Short: "Give an agent something to do",
		Long: `Starts a task: one run of an agent towards a goal. Without a goal the agent
follows its persona's own instructions.

With --wait the phases are shown on standard error, the result is printed on
standard output, and the exit code is 0 when the task succeeded, 1 when it did
not, 8 when it is still pending at --timeout, and 130 when interrupted; the
task itself goes on in the last two cases.`,
		Example: `deckhand run log-triage "What went wrong last night?" --wait
deckhand run log-triage --input /var/log/dpkg.log --wait --timeout 10m
deckhand run log-triage "Check the backups" -o name
deckhand run log-triage "Write the summary" --after task_3q9 --priority 8
deckhand run reviewer "Review it" --artifact 'task_3q9:src/**/*.go'
deckhand run reviewer "Review it" --share task_3q9:src
deckhand run coder "Fix the tests" --mode review --budget 2 --limit iterations=30
deckhand run --assign @human:bob "Swap the failing disk"`,
		Args: takes("[AGENT]", "[GOAL]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.assign == "" && len(args) == 0:
				return usage(cmd, "AGENT is missing")
			case o.assign != "" && len(args) != 1:
				return usage(cmd, "with --assign give the goal alone, in quotes")
			}
			o.wait = o.wait || o.watch
			switch {
			case o.timeout < 0:
				return usage(cmd, "--timeout is %s, give a positive duration such as 10m", o.timeout)
			case o.timeout > 0 && !o.wait:
				return usage(cmd, "--timeout is how long --wait waits, give both")
			}
			request := &deckhandv1.SubmitTaskRequest{
				Title: o.title, Priority: o.priority, After: o.after, AssignTo: o.assign, Context: o.context,
				// A request that is sent twice on its way is one task.
				IdempotencyKey: ident.New("run"),
			}
			if o.assign != "" {
				request.Goal = args[0]
			} else {
				request.AgentId = args[0]
				if len(args) > 1 {
					request.Goal = args[1]
				}
			}
			var err error
			if request.Override, err = o.with.message(cmd); err != nil {
				return err
			}
			if request.Inputs, err = a.readInputs(o.inputs); err != nil {
				return err
			}
			if request.Artifacts, err = o.given(cmd); err != nil {
				return err
			}
			return a.run(cmd.Context(), request, o)
		},
	}
	o.with.register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.title, "title", "", "short title for lists")
	flags.Int32Var(&o.priority, "priority", 0, "1 to 10, 10 first; 5 by default")
	flags.StringSliceVar(&o.after, "after", nil, "tasks that must have succeeded first; when one does not, this one is cancelled")
	flags.StringVar(&o.assign, "assign", "", "instead of AGENT: @human:NAME, @agent:NAME, or none (unassigned)")
	flags.StringVar(&o.context, "context", "", "extra context for the agent")
	flags.StringArrayVar(&o.inputs, "input", nil, "put FILE into the workspace, as FILE or FILE=PATH; input/<its name> by default, - for standard input; may be given more than once")
	flags.StringArrayVar(&o.artifacts, "artifact", nil, "begin with files of another task's workspace, as TASK:PATH or TASK:PATTERN; in artifacts/TASK; may be given more than once")
	flags.StringArrayVar(&o.shared, "share", nil, "like --artifact, for reading only; in shared/TASK")
	flags.BoolVar(&o.wait, "wait", false, "wait for the end and print the result")
	flags.BoolVar(&o.watch, "watch", false, "as --wait, and show reasoning and tool calls too")
	flags.DurationVar(&o.timeout, "timeout", 0, "how long --wait waits, for example 10m; for ever by default")
	flags.Lookup("timeout").DefValue = "" // the help says it in words
	return cmd
}

// readInputs reads FILE or FILE=PATH for each input.
func (a *app) readInputs(specs []string) ([]*deckhandv1.InputFile, error) {
	inputs := make([]*deckhandv1.InputFile, 0, len(specs))
	for _, spec := range specs {
		file, path := spec, ""
		if i := strings.LastIndexByte(spec, '='); i >= 0 {
			// A file whose own name has a "=" is meant by its name.
			if _, err := os.Stat(spec); err != nil {
				file, path = spec[:i], spec[i+1:]
			}
		}
		content, err := a.readInput(file)
		if err != nil {
			return nil, err
		}
		switch {
		case path != "":
		case file == "-":
			path = "input/stdin"
		default:
			path = "input/" + filepath.Base(file)
		}
		inputs = append(inputs, &deckhandv1.InputFile{Path: path, Content: content})
	}
	return inputs, nil
}

func (a *app) readInput(file string) ([]byte, error) {
	if file != "-" {
		return readBounded(file, maxInput)
	}
	content, err := readAll(a.in, maxInput)
	if err != nil {
		return nil, unreadable("standard input", err)
	}
	return content, nil
}

func (a *app) run(ctx context.Context, request *deckhandv1.SubmitTaskRequest, o runOptions) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	if request.GetAgentId() != "" {
		a.noteEstimate(ctx, client, &deckhandv1.GetEstimateRequest{AgentId: request.GetAgentId()})
	}
	res, err := client.Tasks.SubmitTask(ctx, connect.NewRequest(request))
	if err != nil {
		return err
	}
	task := res.Msg.GetTask()
	if o.wait {
		a.notef("%s is %s", termsafe.Line(task.GetId()), queued(res.Msg))
		return a.wait(ctx, client, task.GetId(), o)
	}
	if err := output.Brief(a.printer(), a.taskNoun(), task); err != nil {
		return err
	}
	if a.format.ForPeople() {
		a.notef("follow it: deckhand task watch %s", termsafe.Line(task.GetId()))
	}
	return nil
}

func queued(res *deckhandv1.SubmitTaskResponse) string {
	state := enumName(res.GetTask().GetState())
	if res.GetTask().GetStanding().GetBasis() != "" {
		return fmt.Sprintf("%s at position %d, %s", state, res.GetQueuePosition(), waits(res.GetTask().GetStanding()))
	}
	if res.GetQueuePosition() > 0 {
		return fmt.Sprintf("%s at position %d", state, res.GetQueuePosition())
	}
	return state
}

// errTimeout ends the wait, not the task.
var errTimeout = errors.New("--timeout reached")

// wait shows a task until it has ended and prints its result.
func (a *app) wait(ctx context.Context, client *sdk.Client, id string, o runOptions) error {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	if o.timeout > 0 {
		waiting, stop = context.WithTimeoutCause(ctx, o.timeout, errTimeout)
		defer stop()
	}
	r := &renderer{detail: phasesOnly, observation: observations(waiting, client)}
	if o.watch {
		r.detail = everything
	}
	show := a.eventLines(a.err, r)
	for res, err := range client.Watch(waiting, &deckhandv1.WatchRequest{TaskIds: []string{id}, Follow: true}) {
		if err != nil && ctx.Err() != nil {
			return failed(exitInterrupted, fault.New(fault.Canceled, "interrupted, but task %s goes on", id).
				WithFix("follow it with `deckhand task watch %s` or end it with `deckhand task cancel %s`", id, id))
		}
		if err != nil && waiting.Err() == nil {
			return err
		}
		if err != nil {
			break
		}
		// Progress that cannot be shown does not keep from waiting.
		_ = show(res.GetEvent())
	}
	tasks, err := getTasks(ctx, client, []string{id})
	if err != nil {
		return err
	}
	return a.result(tasks[0])
}

// result prints what came of a task: for people the summary that the agent
// wrote, for programs the task.
func (a *app) result(task *deckhandv1.Task) error {
	if !a.format.ForPeople() {
		if err := output.One(a.printer(), a.taskNoun(), task); err != nil {
			return err
		}
		return outcome(task)
	}
	if final(task.GetState()) {
		a.notef("%s", a.facts(task))
	}
	if summary := strings.TrimSpace(termsafe.Text(task.GetSummary())); summary != "" && final(task.GetState()) {
		if _, err := fmt.Fprintln(a.out, summary); err != nil {
			return err
		}
	}
	return outcome(task)
}
