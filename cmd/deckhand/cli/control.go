package cli

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/internal/bytesize"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// steer has each of some tasks changed and shows them.
func (a *app) steer(cmd *cobra.Command, ids []string, change func(ctx context.Context, client *sdk.Client, id string) (*deckhandv1.Task, error)) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	var tasks []*deckhandv1.Task
	for _, id := range ids {
		task, err := change(cmd.Context(), client, id)
		if err != nil {
			return err
		}
		tasks = append(tasks, task)
	}
	if len(tasks) == 1 {
		return output.Brief(a.printer(), a.taskNoun(), tasks[0])
	}
	return output.List(a.printer(), a.taskNoun(), tasks)
}

func (a *app) taskPauseCommand() *cobra.Command {
	var reason string
	var onNextTool bool
	cmd := &cobra.Command{
		Use: "pause TASK...", Short: "Pause tasks",
		Long: `Takes a task from its worker at once. What runs of it is frozen where it
stands and goes on when the task is resumed. With --on-next-tool the task goes
on until its agent wants to call a tool, and pauses before that call is made.`,
		Example: `deckhand task pause task_3q9 --reason "backup runs"
# look at its next call before it is made
deckhand task pause task_3q9 --on-next-tool`,
		Args: takes("TASK..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.steer(cmd, args, func(ctx context.Context, client *sdk.Client, id string) (*deckhandv1.Task, error) {
				res, err := client.Tasks.PauseTask(ctx, connect.NewRequest(&deckhandv1.PauseTaskRequest{
					TaskId: id, Reason: reason, OnNextTool: onNextTool,
				}))
				if err != nil {
					return nil, err
				}
				return res.Msg.GetTask(), nil
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the record")
	cmd.Flags().BoolVar(&onNextTool, "on-next-tool", false, "pause before the next tool call is made")
	return cmd
}

func (a *app) taskResumeCommand() *cobra.Command {
	var more map[string]string
	cmd := &cobra.Command{
		Use: "resume TASK...", Short: "Resume paused tasks",
		Long: `Lets paused tasks go on from where they stood, and takes back a pause that was
asked for with --on-next-tool. A task that stands at a limit goes on when an
admin gives it a higher one with --limit: iterations, active_time, tokens, calls
or cost_usd, for this run only.`,
		Example: `deckhand task resume task_3q9
deckhand task resume task_3q9 --limit iterations=200 --limit cost_usd=20`,
		Args: takes("TASK..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			limits, err := limitsOf(cmd, more)
			if err != nil {
				return err
			}
			return a.steer(cmd, args, func(ctx context.Context, client *sdk.Client, id string) (*deckhandv1.Task, error) {
				res, err := client.Tasks.ResumeTask(ctx, connect.NewRequest(&deckhandv1.ResumeTaskRequest{TaskId: id, Limits: limits}))
				if err != nil {
					return nil, err
				}
				return res.Msg.GetTask(), nil
			})
		},
	}
	limitFlag(cmd, &more)
	return cmd
}

func limitFlag(cmd *cobra.Command, more *map[string]string) {
	cmd.Flags().StringToStringVar(more, "limit", nil, "raise a limit of this run, for example iterations=100 or active_time=2h; for admins")
}

// limitsOf reads the limits of a run; nil for none.
func limitsOf(cmd *cobra.Command, more map[string]string) (*deckhandv1.TaskLimits, error) {
	if len(more) == 0 {
		return nil, nil
	}
	out := &deckhandv1.TaskLimits{}
	for kind, value := range more {
		whole, err := strconv.ParseInt(value, 10, 64)
		switch kind {
		case "iterations":
			if err == nil && (whole < 1 || whole > 1000) {
				err = strconv.ErrRange
			}
			out.Iterations = int32(whole) //nolint:gosec // checked
		case "tokens":
			out.Tokens = whole
		case "calls":
			out.Calls = whole
		case "active_time":
			var d time.Duration
			d, err = time.ParseDuration(value)
			out.ActiveTime, whole = durationpb.New(d), int64(d)
		case "cost_usd":
			var usd float64
			usd, err = strconv.ParseFloat(value, 64)
			out.CostMicros = int64(math.Round(usd * 1e6))
			whole = out.GetCostMicros()
		default:
			return nil, usage(cmd, "--limit %s is none: use iterations, active_time, tokens, calls or cost_usd", kind)
		}
		if err != nil || whole <= 0 {
			return nil, usage(cmd, "--limit %s=%s is no limit: give a number above 0, for iterations at most 1000, and for active_time a time such as 2h", kind, value)
		}
	}
	return out, nil
}

func (a *app) taskMessageCommand() *cobra.Command {
	return &cobra.Command{
		Use: `message TASK "TEXT"`, Short: "Send a message to a task's agent",
		Long: `The message goes before the agent's plan: it has it in its next turn. A paused
task goes on with it, and one that waits for review does more.`,
		Example: `deckhand task message task_3q9 "leave /etc alone"`,
		Args:    takes("TASK", "TEXT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.steer(cmd, args[:1], func(ctx context.Context, client *sdk.Client, id string) (*deckhandv1.Task, error) {
				res, err := client.Tasks.TellTask(ctx, connect.NewRequest(&deckhandv1.TellTaskRequest{TaskId: id, Text: args[1]}))
				if err != nil {
					return nil, err
				}
				return res.Msg.GetTask(), nil
			})
		},
	}
}

func (a *app) agentMessageCommand() *cobra.Command {
	return &cobra.Command{
		Use: `message NAME "TEXT"`, Short: "Send a message to an agent",
		Long:    `The task that the agent is at gets the message. An idle agent gets a new task with the message as its goal.`,
		Example: `deckhand agent message log-triage "look at the mail log too"`,
		Args:    takes("NAME", "TEXT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Agents.TellAgent(cmd.Context(), connect.NewRequest(&deckhandv1.TellAgentRequest{AgentId: args[0], Text: args[1]}))
			if err != nil {
				return err
			}
			if res.Msg.GetCreated() {
				a.notef("The agent was idle, so this started a new task.")
			}
			return output.Brief(a.printer(), a.taskNoun(), res.Msg.GetTask())
		},
	}
}

func (a *app) agentPauseCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "pause NAME...", Short: "Start no new tasks of agents until they are resumed",
		Long: `Tasks that are submitted to a paused agent wait in the queue and say why. What
is under way goes on: pause that with task pause, or end it with kill agent.`,
		Example: `deckhand agent pause log-triage --reason "the disk is being replaced"`,
		Args:    takes("NAME..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changeAgents(cmd, args, func(ctx context.Context, client *sdk.Client, name string) (*deckhandv1.Agent, error) {
				res, err := client.Agents.PauseAgent(ctx, connect.NewRequest(&deckhandv1.PauseAgentRequest{AgentId: name, Reason: reason}))
				if err != nil {
					return nil, err
				}
				return res.Msg.GetAgent(), nil
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the record and for those whose tasks wait")
	return cmd
}

func (a *app) agentResumeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "resume NAME...", Short: "Let the tasks of paused agents start again",
		Long:    `Lets the tasks of an agent start that was paused, or that its failures have suspended.`,
		Example: "deckhand agent resume log-triage",
		Args:    takes("NAME..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changeAgents(cmd, args, func(ctx context.Context, client *sdk.Client, name string) (*deckhandv1.Agent, error) {
				res, err := client.Agents.ResumeAgent(ctx, connect.NewRequest(&deckhandv1.ResumeAgentRequest{AgentId: name}))
				if err != nil {
					return nil, err
				}
				return res.Msg.GetAgent(), nil
			})
		},
	}
}

// changeAgents has each of some agents changed and shows them.
func (a *app) changeAgents(cmd *cobra.Command, names []string, change func(ctx context.Context, client *sdk.Client, name string) (*deckhandv1.Agent, error)) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	var agents []*deckhandv1.Agent
	for _, name := range names {
		agent, err := change(cmd.Context(), client, name)
		if err != nil {
			return err
		}
		agents = append(agents, agent)
	}
	return output.List(a.printer(), a.agentNoun(), agents)
}

// override are the flags of a task that is run once more.
type override struct {
	memory, node, provider, model string
	limits                        map[string]string
}

func (o *override) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.memory, "memory", "", "give its jail so much memory, for example 2GiB")
	cmd.Flags().StringVar(&o.node, "node", "", "run it on this node; the workspace stays where it is")
	cmd.Flags().StringVar(&o.provider, "provider", "", "use this provider's model; --model goes with it")
	cmd.Flags().StringVar(&o.model, "model", "", "use this model; --provider goes with it")
	limitFlag(cmd, &o.limits)
}

func (o *override) message(cmd *cobra.Command) (*deckhandv1.TaskOverride, error) {
	out := &deckhandv1.TaskOverride{NodeId: o.node, Provider: o.provider, Model: o.model}
	if o.memory != "" {
		bytes, ok := bytesize.Parse(o.memory)
		if !ok || bytes <= 0 {
			return nil, usage(cmd, "--memory is %q, give a size with its unit, such as 512MiB or 4GiB", o.memory)
		}
		out.MemoryBytes = bytes
	}
	if (o.provider == "") != (o.model == "") {
		return nil, usage(cmd, "--provider and --model go together")
	}
	var err error
	out.Limits, err = limitsOf(cmd, o.limits)
	return out, err
}

func (a *app) taskRetryCommand() *cobra.Command {
	var o override
	cmd := &cobra.Command{
		Use: "retry TASK", Short: "Run a task once more that is escalated or has ended",
		Long: `Puts an escalated task back into the queue. For one that has ended it makes a
new one of the same goal and inputs. The flags hold for this task only; the
persona stays as it is.`,
		Example: `deckhand task retry task_3q9
deckhand task retry task_3q9 --memory 4GiB
deckhand task retry task_3q9 --provider anthropic --model claude-sonnet-4-5`,
		Args: takes("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			with, err := o.message(cmd)
			if err != nil {
				return err
			}
			return a.steer(cmd, args, func(ctx context.Context, client *sdk.Client, id string) (*deckhandv1.Task, error) {
				res, err := client.Tasks.RetryTask(ctx, connect.NewRequest(&deckhandv1.RetryTaskRequest{TaskId: id, Override: with}))
				if err != nil {
					return nil, err
				}
				return res.Msg.GetTask(), nil
			})
		},
	}
	o.register(cmd)
	return cmd
}

func (a *app) taskCheckpointsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "checkpoints TASK", Short: "List the points that a task can be resumed from", Example: "deckhand task checkpoints task_3q9",
		Args: takes("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			checkpoints, err := sdk.All(cmd.Context(), client.Tasks.ListCheckpoints, func(token string) *deckhandv1.ListCheckpointsRequest {
				return &deckhandv1.ListCheckpointsRequest{TaskId: args[0], PageToken: token}
			}, (*deckhandv1.ListCheckpointsResponse).GetCheckpoints)
			if err != nil {
				return err
			}
			if len(checkpoints) == 0 {
				a.notef("no checkpoints: each finished iteration makes one, and it is kept for a day")
			}
			return output.List(a.printer(), a.checkpointNoun(), checkpoints)
		},
	}
}

func (a *app) checkpointNoun() output.Noun[*deckhandv1.TaskCheckpoint] {
	return output.Noun[*deckhandv1.TaskCheckpoint]{
		Name: func(x *deckhandv1.TaskCheckpoint) string { return fmt.Sprint(x.GetIteration()) },
		Columns: []output.Column[*deckhandv1.TaskCheckpoint]{
			{Header: "iteration", Value: func(x *deckhandv1.TaskCheckpoint) string { return fmt.Sprint(x.GetIteration()) }},
			{Header: "reason", Value: (*deckhandv1.TaskCheckpoint).GetReason},
			{Header: "age", Value: func(x *deckhandv1.TaskCheckpoint) string { return a.age(x.GetCreatedAt()) }},
			{Header: "expires", Value: func(x *deckhandv1.TaskCheckpoint) string { return moment(x.GetExpiresAt()) }},
		},
	}
}
