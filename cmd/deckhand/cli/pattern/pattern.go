// Package pattern is the command "deckhand pattern": what successful runs have taught.
package pattern

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Command returns the command "deckhand pattern".
func Command(e *env.Env) *cobra.Command {
	cmd := env.Group("pattern", "Show and change what successful runs have taught", `
A pattern is how earlier runs of a type of task succeeded: plan, tools, pitfalls and signs of
success. The hub draws patterns from runs, and offers the best one to a similar new task as
data. A pattern is its owner's until it is shared.
`, `
deckhand pattern list
deckhand pattern show pattern_3q9
deckhand pattern match "migrate the orders table" --agent db-migrator
deckhand pattern share pattern_3q9 team
deckhand pattern report
`)
	cmd.AddCommand(listCommand(e), showCommand(e), editCommand(e), shareCommand(e), disableCommand(e), enableCommand(e), deleteCommand(e), undeleteCommand(e), purgeCommand(e),
		matchCommand(e), reportCommand(e), settingsCommand(e))
	return cmd
}

type row = *deckhandv1.Pattern

func state(p row) string {
	switch {
	case p.GetHeld():
		return "held"
	case !p.GetEnabled():
		return "disabled"
	case p.GetSuggested():
		return "suggested"
	}
	return "unsure"
}

func noun(e *env.Env) output.Noun[row] {
	list := func(items []string) string { return strings.Join(items, "\n") }
	sheet := func(header string, of func(row) string) output.Column[row] {
		return output.Column[row]{Header: header, Alone: true, Value: of}
	}
	block := func(header string, of func(row) string) output.Column[row] {
		return output.Column[row]{Header: header, Block: true, Value: of}
	}
	return output.Noun[row]{
		Name: row.GetId,
		Columns: []output.Column[row]{
			{Header: "id", Value: row.GetId},
			{Header: "title", Value: row.GetTitle},
			{Header: "task type", Value: row.GetTaskType},
			{Header: "domain", Value: row.GetDomain},
			{Header: "confidence", Value: func(p row) string { return fmt.Sprintf("%.2f", p.GetConfidence()) }},
			{Header: "state", Value: state},
			{Header: "sources", Value: func(p row) string { return fmt.Sprint(p.GetSources()) }},
			{Header: "uses", Value: func(p row) string { return fmt.Sprintf("%d of %d", p.GetUses(), p.GetOffers()) }},
			{Header: "owner", Value: row.GetOwner},
			{Header: "seen by", Value: row.GetVisibility},
			{Header: "changed", Wide: true, Value: func(p row) string { return e.Age(p.GetChangedAt()) }},
			sheet("version", func(p row) string { return fmt.Sprint(p.GetVersion()) }),
			sheet("iterations", func(p row) string { return fmt.Sprintf("%.1f", p.GetExpectedIterations()) }),
			sheet("evidence", func(p row) string {
				return fmt.Sprintf("%d runs confirmed it, %d failed with it, %d people approved, %d rejected", p.GetSuccesses(), p.GetFailures(), p.GetApprovals(), p.GetRejections())
			}),
			sheet("keywords", func(p row) string { return strings.Join(p.GetKeywords(), " ") }),
			block("plan", func(p row) string { return list(p.GetApproach().GetPlan()) }),
			sheet("tools", func(p row) string { return strings.Join(p.GetApproach().GetTools(), ", ") }),
			block("pitfalls", func(p row) string {
				var out []string
				for _, f := range p.GetApproach().GetPitfalls() {
					out = append(out, f.GetTool()+": "+f.GetFailed()+"\n  then worked: "+f.GetWorked())
				}
				return list(out)
			}),
			block("signs of success", func(p row) string { return list(p.GetApproach().GetSuccessSigns()) }),
			block("notes", func(p row) string { return list(p.GetApproach().GetNotes()) }),
		},
	}
}

func listCommand(e *env.Env) *cobra.Command {
	req := &deckhandv1.ListPatternsRequest{}
	cmd := &cobra.Command{
		Use: "list [WORDS]", Short: "List the patterns that you see",
		Example: "deckhand pattern list\ndeckhand pattern list migrate --domain database\ndeckhand pattern list --min-confidence 0.7 -o json", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req.Query = env.Optional(args, 0)
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.List(cmd, e, noun(e), "no pattern; they are drawn from tasks that succeed", client.Patterns.ListPatterns, func(token string) *deckhandv1.ListPatternsRequest {
				req.PageToken = token
				return req
			}, (*deckhandv1.ListPatternsResponse).GetPatterns)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&req.TaskType, "task-type", "", "only of this type of task")
	flags.StringVar(&req.Domain, "domain", "", "only of this field of work: a `DOMAIN` such as go or database")
	flags.StringVar(&req.State, "state", "", "enabled or disabled")
	flags.StringVar(&req.Visibility, "visibility", "", "private, team or organisation")
	flags.Float64Var(&req.MinConfidence, "min-confidence", 0, "at least this confidence, from 0 to 1")
	return cmd
}

func showCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "show PATTERN", Short: "Show a pattern with its sources and the tasks that it matched",
		Example: "deckhand pattern show pattern_3q9\ndeckhand pattern show pattern_3q9 -o json", Args: env.Args("PATTERN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Patterns.GetPattern(cmd.Context(), &deckhandv1.GetPatternRequest{PatternId: args[0]})
			if err != nil {
				return err
			}
			if err := output.One(e.Printer(), noun(e), res.GetPattern()); err != nil || !e.Format.ForPeople() {
				return err
			}
			for _, s := range res.GetSources() {
				e.Notef("drawn from %s: %s", s.GetTaskId(), termsafe.Line(s.GetTitle()))
			}
			for _, o := range res.GetOffers() {
				e.Notef("%s %s: %s", o.GetTaskId(), Outcome(o), output.Age(e.Now(), o.GetOfferedAt().AsTime()))
			}
			return nil
		},
	}
}

// Outcome says what came of a match, for people.
func Outcome(o *deckhandv1.PatternOffer) string {
	what := "was offered it"
	switch {
	case o.GetHeldOut():
		what = "matched, and was not offered it, for comparison"
	case o.Used != nil && o.GetUsed():
		what = "used it"
	case o.Used != nil:
		what = "did not use it"
	}
	if o.Succeeded == nil {
		return what
	}
	if o.GetSucceeded() {
		return what + " and succeeded"
	}
	return what + " and failed"
}

func editCommand(e *env.Env) *cobra.Command {
	req := &deckhandv1.UpdatePatternRequest{}
	var plan, notes, signs []string
	cmd := &cobra.Command{
		Use: "edit PATTERN", Short: "Change the text of a pattern",
		Long: `Flags that are left out leave what is there. --plan, --note and --success-sign are given
once for each item, and replace all items. From then on runs add evidence to the pattern,
and no longer change its text.`,
		Example: `deckhand pattern edit pattern_3q9 --title "Move a table to bigint"
deckhand pattern edit pattern_3q9 --plan "Back up" --plan "Migrate with a lock timeout"`,
		Args: env.Args("PATTERN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			req.PatternId = args[0]
			flags := cmd.Flags()
			if flags.Changed("plan") || flags.Changed("note") || flags.Changed("success-sign") {
				res, err := client.Patterns.GetPattern(cmd.Context(), &deckhandv1.GetPatternRequest{PatternId: args[0]})
				if err != nil {
					return err
				}
				req.Version, req.Approach = res.GetPattern().GetVersion(), res.GetPattern().GetApproach()
				if flags.Changed("plan") {
					req.Approach.Plan = plan
				}
				if flags.Changed("note") {
					req.Approach.Notes = notes
				}
				if flags.Changed("success-sign") {
					req.Approach.SuccessSigns = signs
				}
			}
			return env.Show(cmd, e, noun(e), client.Patterns.UpdatePattern, req, (*deckhandv1.UpdatePatternResponse).GetPattern)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&req.Title, "title", "", "the new title")
	flags.StringVar(&req.TaskType, "task-type", "", "the type of task that it is for")
	flags.StringVar(&req.Domain, "domain", "", "the field of work: a `DOMAIN` such as go or database")
	flags.StringSliceVar(&req.Keywords, "keywords", nil, "all keywords: `WORDS` with commas between them")
	flags.StringArrayVar(&plan, "plan", nil, "the `TEXT` of a step of the plan; repeat it for each step")
	flags.StringArrayVar(&notes, "note", nil, "the `TEXT` of a note; repeat it for each note")
	flags.StringArrayVar(&signs, "success-sign", nil, "the `TEXT` of a sign of success; repeat it for each sign")
	return cmd
}

func shareCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "share PATTERN VISIBILITY", Short: "Set who sees a pattern, and to whose tasks it is offered",
		Long: `VISIBILITY is private (you), team (who is in a team with you) or organisation (everybody).
Look at the text first: it quotes goals and commands of the tasks that it was drawn from.`,
		Example: "deckhand pattern share pattern_3q9 team\ndeckhand pattern share pattern_3q9 private", Args: env.Args("PATTERN", "VISIBILITY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, noun(e), client.Patterns.SharePattern, &deckhandv1.SharePatternRequest{PatternId: args[0], Visibility: args[1]}, (*deckhandv1.SharePatternResponse).GetPattern)
		},
	}
}

func disableCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "disable PATTERN", Short: "Keep a pattern and no longer offer it", Example: "deckhand pattern disable pattern_3q9", Args: env.Args("PATTERN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, noun(e), client.Patterns.DisablePattern, &deckhandv1.DisablePatternRequest{PatternId: args[0]}, (*deckhandv1.DisablePatternResponse).GetPattern)
		},
	}
}

func enableCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "enable PATTERN", Short: "Offer a pattern that is disabled or held",
		Long: `A pattern is held if a run that taught it has read what anybody may have written, such as a
web page. Read it whole before you enable it: deckhand pattern show PATTERN.`,
		Example: "deckhand pattern enable pattern_3q9", Args: env.Args("PATTERN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, noun(e), client.Patterns.EnablePattern, &deckhandv1.EnablePatternRequest{PatternId: args[0]}, (*deckhandv1.EnablePatternResponse).GetPattern)
		},
	}
}

func deleteCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "delete PATTERN", Short: "Delete a pattern; for an hour it can be undeleted", Example: "deckhand pattern delete pattern_3q9", Args: env.Args("PATTERN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Patterns.GetPattern(cmd.Context(), &deckhandv1.GetPatternRequest{PatternId: args[0]})
			if err != nil {
				return err
			}
			id := res.GetPattern().GetId()
			if _, err := client.Patterns.DeletePattern(cmd.Context(), &deckhandv1.DeletePatternRequest{PatternId: id}); err != nil {
				return err
			}
			e.Notef("deleted; within an hour: deckhand pattern undelete %s", id)
			return nil
		},
	}
}

func undeleteCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "undelete ID", Short: "Restore a pattern that was deleted less than an hour ago", Example: "deckhand pattern undelete pattern_3q9", Args: env.Args("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, noun(e), client.Patterns.UndeletePattern, &deckhandv1.UndeletePatternRequest{PatternId: args[0]}, (*deckhandv1.UndeletePatternResponse).GetPattern)
		},
	}
}

func purgeCommand(e *env.Env) *cobra.Command {
	req := &deckhandv1.PurgePatternsRequest{}
	yes := false
	cmd := &cobra.Command{
		Use: "purge", Short: "Delete what was learned from a user's tasks, without a way back",
		Long: `Deletes the user's patterns with all versions, and the user's verdicts and proposals. Users
purge their own, administrators anybody's. Backups that were made before keep what they have.`,
		Example: "deckhand pattern purge --user alice --yes", Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !yes {
				return env.Usage(cmd, "this cannot be undone; say --yes to do it")
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Patterns.PurgePatterns(cmd.Context(), req)
			if err != nil {
				return err
			}
			e.Notef("deleted %d patterns, %d verdicts and %d proposals", res.GetPatterns(), res.GetVerdicts(), res.GetProposals())
			return nil
		},
	}
	cmd.Flags().StringVar(&req.UserId, "user", "", "whose; your own by default")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	return cmd
}

func matchCommand(e *env.Env) *cobra.Command {
	req := &deckhandv1.MatchPatternsRequest{}
	cmd := &cobra.Command{
		Use: "match GOAL", Short: "Show the patterns that a task of yours with a goal would be offered",
		Long:    "The first one is what the task is offered, unless it is held out for comparison.",
		Example: `deckhand pattern match "migrate the orders table" --agent db-migrator`, Args: env.Args("GOAL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req.Goal = args[0]
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Patterns.MatchPatterns(cmd.Context(), req)
			if err != nil {
				return err
			}
			if len(res.GetMatches()) == 0 {
				e.Notef("no pattern matches; see those with less confidence with --unsure")
			}
			type match = *deckhandv1.PatternMatch
			return output.List(e.Printer(), output.Noun[match]{
				Name: func(m match) string { return m.GetPattern().GetId() },
				Columns: []output.Column[match]{
					{Header: "id", Value: func(m match) string { return m.GetPattern().GetId() }},
					{Header: "title", Value: func(m match) string { return m.GetPattern().GetTitle() }},
					{Header: "similarity", Value: func(m match) string { return fmt.Sprintf("%.2f", m.GetSimilarity()) }},
					{Header: "confidence", Value: func(m match) string { return fmt.Sprintf("%.2f", m.GetPattern().GetConfidence()) }},
					{Header: "owner", Value: func(m match) string { return m.GetPattern().GetOwner() }},
				},
			}, res.GetMatches())
		},
	}
	cmd.Flags().StringVar(&req.AgentId, "agent", "", "the agent that would run the task; its task type counts")
	cmd.Flags().StringVar(&req.TaskType, "task-type", "", "the type of the task, instead of the agent's")
	cmd.Flags().BoolVar(&req.Unsure, "unsure", false, "those too whose confidence is too low to be offered")
	return cmd
}

func reportCommand(e *env.Env) *cobra.Command {
	req := &deckhandv1.GetPatternReportRequest{}
	var since string
	cmd := &cobra.Command{
		Use: "report [PATTERN]", Short: "Compare tasks with a pattern and tasks from which one was held out",
		Long: `One in ten matches is held out: the task is not offered the pattern, so that the two groups
can be compared. Below 20 ended tasks in each group the difference may be chance.`,
		Example: "deckhand pattern report\ndeckhand pattern report pattern_3q9 --since 2026-01-31", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			req.PatternId = env.Optional(args, 0)
			if req.Since, err = env.Day(cmd, "--since", since); err != nil {
				return err
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Patterns.GetPatternReport(cmd.Context(), req)
			if err != nil {
				return err
			}
			if !e.Format.ForPeople() {
				return output.One(e.Printer(), output.Noun[*deckhandv1.GetPatternReportResponse]{}, res)
			}
			type figures = *deckhandv1.PatternFigures
			number := func(header string, of func(figures) int64) output.Column[figures] {
				return output.Column[figures]{Header: header, Value: func(f figures) string { return fmt.Sprint(of(f)) }}
			}
			err = output.List(e.Printer(), output.Noun[figures]{
				Name: func(figures) string { return "" },
				Columns: []output.Column[figures]{
					{Header: "pattern", Value: func(f figures) string {
						if f == res.GetWithout() {
							return "held out"
						}
						return "offered"
					}},
					number("matched", figures.GetMatched), number("ended", figures.GetEnded), number("succeeded", figures.GetSucceeded), number("used", figures.GetUsed),
					{Header: "iterations", Value: func(f figures) string { return fmt.Sprintf("%.1f", f.GetMeanIterations()) }},
					{Header: "cost", Value: func(f figures) string { return fmt.Sprintf("$%.4f", f.GetMeanCostMicros()/1e6) }},
				},
			}, []figures{res.GetWith(), res.GetWithout()})
			e.Notef("%d patterns, %d of them suggested", res.GetPatterns(), res.GetSuggested())
			if !res.GetComparable() {
				e.Notef("fewer than 20 ended tasks in a group: the difference may be chance")
			}
			return err
		},
	}
	cmd.Flags().StringVar(&since, "since", "", "matches since this day, such as 2026-01-31; 90 days ago by default")
	return cmd
}

func settingsCommand(e *env.Env) *cobra.Command {
	var enabled bool
	var holdOut int32
	var least float64
	var provider, model string
	cmd := &cobra.Command{
		Use: "settings", Short: "Change whether and when patterns are offered; for administrators",
		Long: `Changes whether and when patterns are offered, and which model words them.
Without a model, their words are those of the runs.

With one, the hub sends titles, keywords and plans of patterns to its provider, those of
private patterns too.`,
		Example: "deckhand pattern settings --hold-out 20\ndeckhand pattern settings --enabled=false\ndeckhand pattern settings --provider anthropic --model claude-haiku-4-5\ndeckhand pattern settings --model \"\"", Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			req := &deckhandv1.SetPatternSettingsRequest{}
			if cmd.Flags().Changed("enabled") {
				req.Enabled = &enabled
			}
			if cmd.Flags().Changed("hold-out") {
				req.HoldOut = &holdOut
			}
			if cmd.Flags().Changed("min-confidence") {
				req.MinConfidence = &least
			}
			switch {
			case cmd.Flags().Changed("model") && (model == "") == (provider == ""):
				req.Provider, req.Model = &provider, &model
			case cmd.Flags().Changed("model") || provider != "":
				return env.Usage(cmd, "give --provider and --model together, or only --model \"\" for none")
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			type settings = *deckhandv1.PatternSettings
			return env.Show(cmd, e, output.Noun[settings]{
				Name: func(settings) string { return "settings" },
				Columns: []output.Column[settings]{
					{Header: "enabled", Value: func(s settings) string { return fmt.Sprint(s.GetEnabled()) }},
					{Header: "hold out", Value: func(s settings) string { return fmt.Sprintf("%d of 100 matches", s.GetHoldOut()) }},
					{Header: "minimum confidence", Value: func(s settings) string { return fmt.Sprintf("%.2f", s.GetMinConfidence()) }},
					{Header: "worded by", Value: func(s settings) string { return strings.Trim(s.GetProvider()+"/"+s.GetModel(), "/") }},
				},
			}, client.Patterns.SetPatternSettings, req, (*deckhandv1.SetPatternSettingsResponse).GetSettings)
		},
	}
	cmd.Flags().BoolVar(&enabled, "enabled", true, "whether patterns are drawn and offered")
	cmd.Flags().Int32Var(&holdOut, "hold-out", 10, "how many of 100 matches are not offered, for comparison")
	cmd.Flags().Float64Var(&least, "min-confidence", 0.7, "the confidence from which a pattern is offered")
	cmd.Flags().StringVar(&provider, "provider", "", "provider of the model that words patterns")
	cmd.Flags().StringVar(&model, "model", "", "the model that words patterns; empty for none")
	return cmd
}
