// Package taskplan is the command "deckhand task plan": it shows the plan of a task and
// changes it in place. The agent is told of each change with its next turn.
package taskplan

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Command returns the command "deckhand task plan".
func Command(e *env.Env) *cobra.Command {
	cmd := env.Group("plan", "Show and change the plan of a task", `
An agent sets its plan with the tool update_plan. A change is made to the revision that
is shown; if agent or person have changed the plan since, nothing is changed. The agent
is told what was changed with its next turn.
`, `
deckhand task plan show task_3q9
deckhand task plan add task_3q9 "Check the backups" --before 3
deckhand task plan mark task_3q9 2 skipped
`)
	cmd.AddCommand(showCommand(e), addCommand(e), removeCommand(e), moveCommand(e), markCommand(e), replaceCommand(e))
	return cmd
}

// place is where an item goes.
type place struct{ parent, before string }

func (p *place) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.parent, "parent", "", "the item that it becomes a part of")
	cmd.Flags().StringVar(&p.before, "before", "", "the item of the same parent that it comes before (default: the end)")
}

func showCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "show TASK", Short: "Show the plan of a task", Example: "deckhand task plan show task_3q9", Args: env.Args("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := Get(cmd, e, args[0])
			if err != nil {
				return err
			}
			return show(e, p)
		},
	}
}

func addCommand(e *env.Env) *cobra.Command {
	var where place
	item := &deckhandv1.PlanItem{}
	cmd := &cobra.Command{
		Use: "add TASK TITLE", Short: "Add an item to the plan of a task",
		Example: `deckhand task plan add task_3q9 "Check the backups" --parent 2 --after 1`, Args: env.Args("TASK", "TITLE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			item.Title = args[1]
			return edit(cmd, e, &deckhandv1.EditTaskPlanRequest{TaskId: args[0], Change: &deckhandv1.EditTaskPlanRequest_Add{
				Add: &deckhandv1.AddPlanItem{Item: item, Parent: where.parent, Before: where.before},
			}})
		},
	}
	where.register(cmd)
	cmd.Flags().StringVar(&item.Id, "id", "", "its id (default: a new one)")
	cmd.Flags().StringSliceVar(&item.DependsOn, "after", nil, "ids of the items that must be done first")
	return cmd
}

func removeCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "remove TASK ITEM", Short: "Remove an item and its parts from the plan of a task", Example: "deckhand task plan remove task_3q9 2", Args: env.Args("TASK", "ITEM"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return edit(cmd, e, &deckhandv1.EditTaskPlanRequest{TaskId: args[0], Change: &deckhandv1.EditTaskPlanRequest_Remove{Remove: &deckhandv1.RemovePlanItem{Id: args[1]}}})
		},
	}
}

func moveCommand(e *env.Env) *cobra.Command {
	var where place
	cmd := &cobra.Command{
		Use: "move TASK ITEM", Short: "Move an item and its parts in the plan of a task", Example: "deckhand task plan move task_3q9 3 --before 1", Args: env.Args("TASK", "ITEM"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return edit(cmd, e, &deckhandv1.EditTaskPlanRequest{TaskId: args[0], Change: &deckhandv1.EditTaskPlanRequest_Move{
				Move: &deckhandv1.MovePlanItem{Id: args[1], Parent: where.parent, Before: where.before},
			}})
		},
	}
	where.register(cmd)
	return cmd
}

func markCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "mark TASK ITEM pending|in_progress|done|skipped", Short: "Set the status of an item of the plan of a task",
		Example: "deckhand task plan mark task_3q9 2 skipped", Args: env.Args("TASK", "ITEM", "STATUS"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return edit(cmd, e, &deckhandv1.EditTaskPlanRequest{TaskId: args[0], Change: &deckhandv1.EditTaskPlanRequest_Mark{
				Mark: &deckhandv1.MarkPlanItem{Id: args[1], Status: args[2]},
			}})
		},
	}
}

func replaceCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "replace TASK FILE", Short: "Replace the plan of a task",
		Long: Form,
		Example: `deckhand task plan replace task_3q9 plan.yaml
# from standard input
echo '["Stop the writer", "Migrate"]' | deckhand task plan replace task_3q9 -`, Args: env.Args("TASK", "FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			plan, err := ReadPlan(e, cmd, args[1])
			if err != nil {
				return err
			}
			return edit(cmd, e, &deckhandv1.EditTaskPlanRequest{TaskId: args[0], Change: &deckhandv1.EditTaskPlanRequest_Replace{Replace: plan}})
		},
	}
}

// Get returns the plan of a task.
func Get(cmd *cobra.Command, e *env.Env, task string) (*deckhandv1.TaskPlan, error) {
	client, err := e.Client()
	if err != nil {
		return nil, err
	}
	res, err := client.TaskPlans.GetTaskPlan(cmd.Context(), &deckhandv1.GetTaskPlanRequest{TaskId: task})
	if err != nil {
		return nil, err
	}
	return res.GetPlan(), nil
}

// edit makes a change to the plan as it is now.
func edit(cmd *cobra.Command, e *env.Env, req *deckhandv1.EditTaskPlanRequest) error {
	now, err := Get(cmd, e, req.GetTaskId())
	if err != nil {
		return err
	}
	req.Revision = now.GetRevision()
	client, err := e.Client()
	if err != nil {
		return err
	}
	res, err := client.TaskPlans.EditTaskPlan(cmd.Context(), req)
	if err != nil {
		return err
	}
	return show(e, res.GetPlan())
}

// show prints a plan: for people as rows, whose titles are indented by their depth.
func show(e *env.Env, p *deckhandv1.TaskPlan) error {
	if !e.Format.ForPeople() {
		return output.One(e.Printer(), output.Noun[*deckhandv1.TaskPlan]{Name: (*deckhandv1.TaskPlan).GetTaskId}, p)
	}
	if p.GetRevision() == 0 {
		e.Notef("The agent has set no plan.")
		return nil
	}
	e.Notef("Revision %d, by %s.", p.GetRevision(), p.GetChangedBy())
	if p.GetChanges() != "" {
		e.Notef("Changed by people since the agent set it: %s", p.GetChanges())
	}
	var rows []*deckhandv1.PlanItem
	depths := map[*deckhandv1.PlanItem]int{}
	var walk func(items []*deckhandv1.PlanItem, depth int)
	walk = func(items []*deckhandv1.PlanItem, depth int) {
		for _, i := range items {
			rows, depths[i] = append(rows, i), depth
			walk(i.GetChildren(), depth+1)
		}
	}
	walk(p.GetItems(), 0)
	return output.List(e.Printer(), output.Noun[*deckhandv1.PlanItem]{
		Name: (*deckhandv1.PlanItem).GetId,
		Columns: []output.Column[*deckhandv1.PlanItem]{
			{Header: "id", Value: (*deckhandv1.PlanItem).GetId},
			{Header: "status", Value: (*deckhandv1.PlanItem).GetStatus},
			{Header: "title", Value: func(i *deckhandv1.PlanItem) string { return strings.Repeat("· ", depths[i]) + i.GetTitle() }},
			{Header: "after", Value: func(i *deckhandv1.PlanItem) string { return strings.Join(i.GetDependsOn(), ", ") }},
		},
	}, rows)
}
