// Package retention is the command "deckhand retention": how long an organisation keeps
// what ended tasks have left, and the tasks of which everything is kept.
package retention

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Command returns the command "deckhand retention".
func Command(e *env.Env) *cobra.Command {
	cmd := env.Group("retention", "Set how long the history of ended tasks is kept", `
What a task has left (events, transcripts, tool calls, inputs, inbox items, model calls)
is deleted as many days after its end as its organisation says; by default it is kept for
ever. Tasks, their results and the audit are never deleted. A legal hold keeps everything
of one task.
`, `
deckhand retention show
deckhand retention set turns=90 steps=90 events=365
deckhand retention show --dry-run
deckhand retention hold task_3q9 --reason "case 2026-114"
`)
	cmd.AddCommand(showCommand(e), setCommand(e), holdCommand(e), releaseCommand(e), holdsCommand(e))
	return cmd
}

// days returns how long something is kept, for people.
func days(n int32) string {
	switch n {
	case 0:
		return "for ever"
	case 1:
		return "1 day"
	}
	return fmt.Sprintf("%d days", n)
}

func rules(e *env.Env, plan bool) output.Noun[*deckhandv1.RetentionRule] {
	type rule = *deckhandv1.RetentionRule
	columns := []output.Column[rule]{
		{Header: "kind", Value: rule.GetKind},
		{Header: "kept", Value: func(r rule) string { return days(r.GetDays()) }},
	}
	if plan {
		columns = append(columns,
			output.Column[rule]{Header: "to delete", Value: func(r rule) string { return fmt.Sprintf("%d rows of %d tasks", r.GetDueRows(), r.GetDueTasks()) }},
			output.Column[rule]{Header: "on hold", Value: func(r rule) string { return strconv.FormatInt(r.GetHeldTasks(), 10) }})
	} else {
		columns = append(columns,
			output.Column[rule]{Header: "deleted", Value: func(r rule) string { return strconv.FormatInt(r.GetDeleted(), 10) }},
			output.Column[rule]{Header: "last", Value: func(r rule) string { return e.Age(r.GetDeletedAt()) }})
	}
	return output.Noun[rule]{Name: rule.GetKind, Columns: append(columns, output.Column[rule]{Header: "what", Value: rule.GetDescription})}
}

func showCommand(e *env.Env) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use: "show", Short: "Show how long what is kept, and what was deleted",
		Long: `Shows the rules and how much they have deleted. With --dry-run it counts what they
would delete now, and the tasks that a legal hold keeps; nothing is deleted.`,
		Example: "deckhand retention show\ndeckhand retention show --dry-run", Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Retention.GetRetention(cmd.Context(), &deckhandv1.GetRetentionRequest{Plan: dryRun})
			if err != nil {
				return err
			}
			return output.List(e.Printer(), rules(e, dryRun), res.GetRules())
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "count what would be deleted now")
	return cmd
}

func setCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "set KIND=DAYS...", Short: "Change how long kinds of data are kept",
		Long: `DAYS are counted from the end of a task; 0 keeps for ever. KIND is events, turns, steps,
inputs, inbox, model_calls or artifacts. Deletion begins within a minute, in small
batches; see what it will be with: deckhand retention show --dry-run.`,
		Example: "deckhand retention set turns=90 steps=90 events=365\ndeckhand retention set turns=0", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &deckhandv1.SetRetentionRequest{Days: map[string]int32{}}
			for _, arg := range args {
				kind, text, found := strings.Cut(arg, "=")
				n, err := strconv.ParseInt(strings.TrimSuffix(text, "d"), 10, 32)
				if !found || err != nil {
					return env.Usage(cmd, "%q is not KIND=DAYS, such as turns=90", arg)
				}
				req.Days[kind] = int32(n)
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Retention.SetRetention(cmd.Context(), req)
			if err != nil {
				return err
			}
			return output.List(e.Printer(), rules(e, false), res.GetRules())
		},
	}
}

func holds(e *env.Env) output.Noun[*deckhandv1.LegalHold] {
	type hold = *deckhandv1.LegalHold
	return output.Noun[hold]{
		Name: hold.GetTaskId,
		Columns: []output.Column[hold]{
			{Header: "task", Value: hold.GetTaskId},
			{Header: "reason", Value: hold.GetReason},
			{Header: "set by", Value: hold.GetSetBy},
			{Header: "age", Value: func(h hold) string { return e.Age(h.GetSetAt()) }},
		},
	}
}

func holdCommand(e *env.Env) *cobra.Command {
	req := &deckhandv1.SetLegalHoldRequest{}
	cmd := &cobra.Command{
		Use: "hold TASK", Short: "Keep everything of a task until the hold is released",
		Example: `deckhand retention hold task_3q9 --reason "case 2026-114"`, Args: env.Args("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			req.TaskId = args[0]
			return env.Change(cmd, e, holds(e), client.Retention.SetLegalHold, req, (*deckhandv1.SetLegalHoldResponse).GetHold)
		},
	}
	cmd.Flags().StringVar(&req.Reason, "reason", "", "why, for those who find the hold later")
	return cmd
}

func releaseCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "release TASK", Short: "Release a legal hold", Example: "deckhand retention release task_3q9", Args: env.Args("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			if _, err := client.Retention.SetLegalHold(cmd.Context(), &deckhandv1.SetLegalHoldRequest{TaskId: args[0], Released: true}); err != nil {
				return err
			}
			e.Notef("the rules of retention count for %s again", args[0])
			return nil
		},
	}
}

func holdsCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "holds", Short: "List the tasks of which everything is kept", Example: "deckhand retention holds", Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.List(cmd, e, holds(e), "no task is on hold", client.Retention.ListLegalHolds, func(token string) *deckhandv1.ListLegalHoldsRequest {
				return &deckhandv1.ListLegalHoldsRequest{PageToken: token}
			}, (*deckhandv1.ListLegalHoldsResponse).GetHolds)
		},
	}
}
