package task

import (
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/inbox"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// listOptions are the flags of task list.
type listOptions struct {
	filterOptions

	limit int
}

// filterOptions are the flags that pick tasks.
type filterOptions struct {
	states  []string
	request *deckhandv1.ListTasksRequest
	// from and to are days.
	from, to string
}

// flags adds the flags.
func (o *filterOptions) flags(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&o.states, "state", nil, "only tasks in these states, for example running,queued")
	cmd.Flags().StringVar(&o.request.AgentId, "agent", "", "only tasks of this agent")
	cmd.Flags().StringVar(&o.request.Query, "search", "", "only tasks with these words in their title, goal or result")
	cmd.Flags().StringVar(&o.from, "from", "", "only tasks made on this day (UTC) or later, such as 2026-01-31")
	cmd.Flags().StringVar(&o.to, "to", "", "only tasks made on this day (UTC) or before")
	cmd.Flags().StringVar(&o.request.ParentId, "parent", "", "only subtasks of this task")
}

// read fills the request with what the flags say.
func (o *filterOptions) read(cmd *cobra.Command) (err error) {
	for _, name := range o.states {
		state, ok := deckhandv1.TaskState_value["TASK_STATE_"+strings.ToUpper(name)]
		if !ok || state == 0 {
			return env.Usage(cmd, "there is no task state %q, the states are %s", name, strings.Join(stateNames(), ", "))
		}
		o.request.States = append(o.request.States, deckhandv1.TaskState(state))
	}
	if o.request.CreatedFrom, err = env.Day(cmd, "--from", o.from); err != nil {
		return err
	}
	if o.request.CreatedBefore, err = env.Day(cmd, "--to", o.to); err != nil {
		return err
	}
	if last := o.request.GetCreatedBefore(); last != nil {
		// The last day is among them.
		o.request.CreatedBefore = timestamppb.New(last.AsTime().AddDate(0, 0, 1))
	}
	return nil
}

func listCommand(e *env.Env) *cobra.Command {
	o := listOptions{filterOptions: filterOptions{request: &deckhandv1.ListTasksRequest{}}}
	cmd := &cobra.Command{
		Use: "list", Short: "List tasks, newest first",
		Example: `deckhand task list --agent log-triage --state running,queued
deckhand task list --from 2026-01-01 --to 2026-01-31 --limit 0
# every id, for a script
deckhand task list --limit 0 -o name`,
		Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.read(cmd); err != nil {
				return err
			}
			if o.limit < 0 {
				return env.Usage(cmd, "--limit is %d, give 0 for all or a positive number", o.limit)
			}
			return list(e, cmd, o.request, o.limit)
		},
	}
	o.flags(cmd)
	cmd.Flags().IntVar(&o.limit, "limit", 20, "maximum number of items (0 = all)")
	cmd.Flags().StringVar(&o.request.PageToken, "page", "", "continue from this page token")
	return cmd
}

func stateNames() []string {
	var names []string
	for i := int32(1); i < int32(len(deckhandv1.TaskState_name)); i++ {
		names = append(names, output.EnumName(deckhandv1.TaskState(i)))
	}
	return names
}

func list(e *env.Env, cmd *cobra.Command, request *deckhandv1.ListTasksRequest, limit int) error {
	client, err := e.Client()
	if err != nil {
		return err
	}
	tasks, next, err := env.Newest(cmd.Context(), limit, request.GetPageToken(), client.Tasks.ListTasks, request, func(size int32, token string) {
		request.PageSize, request.PageToken = size, token
	}, (*deckhandv1.ListTasksResponse).GetTasks)
	if err != nil {
		return err
	}
	if err := output.List(e.Printer(), Noun(e), tasks); err != nil {
		return err
	}
	inbox.NoteWaiting(e, tasks...)
	switch {
	case next != "":
		env.NoteMore(e, len(tasks), next)
	case len(tasks) == 0 && (request.AgentId != "" || request.Query != "" || request.ParentId != "" || len(request.States) > 0):
		e.Notef("no such tasks; all of them: deckhand task list")
	case len(tasks) == 0:
		e.Notef(`no tasks yet; start one: deckhand run AGENT "what to reach"`)
	}
	return nil
}
