// Package feedback is the command "deckhand feedback": verdicts on results, and the proposals
// that corrections become.
package feedback

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Command returns the command "deckhand feedback".
func Command(e *env.Env) *cobra.Command {
	cmd := env.Group("feedback", "Approve, correct or reject results", `
What you say of a task, a plan or a pattern changes the confidence in patterns at once, and
what you say of an entry of the memory the confidence in that entry. A correction becomes a
proposal: it changes nothing until the pattern's owner, or the task's submitter, accepts it.
`, `
deckhand feedback approve task task_3q9
deckhand feedback correct task task_3q9 "The certificates are in /etc/relay"
deckhand feedback reject pattern pattern_3q9
deckhand feedback proposals
deckhand feedback accept proposal_3q9
`)
	cmd.AddCommand(
		verdictCommand(e, "approve", "Say that a result is good", deckhandv1.FeedbackVerdict_FEEDBACK_VERDICT_APPROVE),
		verdictCommand(e, "correct", "Say what would have been better", deckhandv1.FeedbackVerdict_FEEDBACK_VERDICT_CORRECT),
		verdictCommand(e, "reject", "Say that a result is bad", deckhandv1.FeedbackVerdict_FEEDBACK_VERDICT_REJECT),
		listCommand(e), proposalsCommand(e), decideCommand(e, "accept", "Add the text of a proposal to its pattern", true), decideCommand(e, "refuse", "Refuse a proposal", false),
	)
	return cmd
}

var subjects = map[string]deckhandv1.FeedbackSubject{
	"task": deckhandv1.FeedbackSubject_FEEDBACK_SUBJECT_TASK, "step": deckhandv1.FeedbackSubject_FEEDBACK_SUBJECT_STEP,
	"plan": deckhandv1.FeedbackSubject_FEEDBACK_SUBJECT_PLAN, "pattern": deckhandv1.FeedbackSubject_FEEDBACK_SUBJECT_PATTERN,
	"memory": deckhandv1.FeedbackSubject_FEEDBACK_SUBJECT_MEMORY,
}

type given = *deckhandv1.Feedback

func noun(e *env.Env) output.Noun[given] {
	return output.Noun[given]{
		Name: given.GetId,
		Columns: []output.Column[given]{
			{Header: "id", Value: given.GetId},
			{Header: "about", Value: func(f given) string { return output.EnumName(f.GetSubject()) + " " + f.GetSubjectId() }},
			{Header: "verdict", Value: func(f given) string { return output.EnumName(f.GetVerdict()) }},
			{Header: "correction", Value: given.GetCorrection},
			{Header: "by", Value: given.GetGivenBy},
			{Header: "age", Value: func(f given) string { return e.Age(f.GetGivenAt()) }},
		},
	}
}

func verdictCommand(e *env.Env, name, short string, verdict deckhandv1.FeedbackVerdict) *cobra.Command {
	args, names := "SUBJECT ID", []string{"SUBJECT", "ID"}
	example := "deckhand feedback " + name + " task task_3q9\ndeckhand feedback " + name + " pattern pattern_3q9"
	if verdict == deckhandv1.FeedbackVerdict_FEEDBACK_VERDICT_CORRECT {
		args, names = args+" TEXT", append(names, "TEXT")
		example = `deckhand feedback correct task task_3q9 "The certificates are in /etc/relay"`
	}
	return &cobra.Command{
		Use: name + " " + args, Short: short,
		Long:    "SUBJECT is task, step, plan, pattern or memory. ID is its id; of a plan that of its task. A newer verdict of yours replaces the older.",
		Example: example, Args: env.Args(names...),
		RunE: func(cmd *cobra.Command, args []string) error {
			subject, known := subjects[args[0]]
			if !known {
				return env.Usage(cmd, "%q is not task, step, plan, pattern or memory", args[0])
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Feedback.GiveFeedback(cmd.Context(), &deckhandv1.GiveFeedbackRequest{Subject: subject, SubjectId: args[1], Verdict: verdict, Correction: env.Optional(args, 2)})
			if err != nil {
				return err
			}
			if len(res.GetPatternIds()) > 0 {
				e.Notef("it counts for %s", strings.Join(res.GetPatternIds(), ", "))
			}
			for _, p := range res.GetProposals() {
				e.Notef("proposed; %s decides: deckhand feedback accept %s", p.GetOwner(), p.GetId())
			}
			return output.Brief(e.Printer(), noun(e), res.GetFeedback())
		},
	}
}

func listCommand(e *env.Env) *cobra.Command {
	req := &deckhandv1.ListFeedbackRequest{}
	cmd := &cobra.Command{
		Use: "list", Short: "List what people said of what you see", Example: "deckhand feedback list\ndeckhand feedback list --task task_3q9", Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.List(cmd, e, noun(e), "nobody has said anything yet", client.Feedback.ListFeedback, func(token string) *deckhandv1.ListFeedbackRequest {
				req.PageToken = token
				return req
			}, (*deckhandv1.ListFeedbackResponse).GetFeedback)
		},
	}
	cmd.Flags().StringVar(&req.TaskId, "task", "", "only of this task, its steps and its plan")
	cmd.Flags().StringVar(&req.PatternId, "pattern", "", "only of this `PATTERN`")
	cmd.Flags().StringVar(&req.MemoryId, "memory", "", "only of this `MEMORY`")
	return cmd
}

type proposal = *deckhandv1.Proposal

func proposals(e *env.Env) output.Noun[proposal] {
	return output.Noun[proposal]{
		Name: proposal.GetId,
		Columns: []output.Column[proposal]{
			{Header: "id", Value: proposal.GetId},
			{Header: "state", Value: proposal.GetState},
			{Header: "note", Value: proposal.GetNote},
			{Header: "for", Value: func(p proposal) string {
				if p.GetPatternId() == "" {
					return "a new pattern of " + p.GetTaskId()
				}
				return strings.TrimSpace(p.GetPatternId() + " " + p.GetPatternTitle())
			}},
			{Header: "by", Value: proposal.GetProposedBy},
			{Header: "decides", Value: proposal.GetOwner},
			{Header: "age", Value: func(p proposal) string { return e.Age(p.GetCreatedAt()) }},
		},
	}
}

func proposalsCommand(e *env.Env) *cobra.Command {
	state := "open"
	cmd := &cobra.Command{
		Use: "proposals", Short: "List the proposals that you may decide or have made", Example: "deckhand feedback proposals\ndeckhand feedback proposals --state accepted", Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.List(cmd, e, proposals(e), fmt.Sprintf("no proposal is %s", state), client.Feedback.ListProposals, func(token string) *deckhandv1.ListProposalsRequest {
				return &deckhandv1.ListProposalsRequest{State: state, PageToken: token}
			}, (*deckhandv1.ListProposalsResponse).GetProposals)
		},
	}
	cmd.Flags().StringVar(&state, "state", state, "open, accepted or refused")
	return cmd
}

func decideCommand(e *env.Env, name, short string, accept bool) *cobra.Command {
	memory := false
	cmd := &cobra.Command{
		Use: name + " PROPOSAL", Short: short, Example: "deckhand feedback " + name + " proposal_3q9", Args: env.Args("PROPOSAL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, proposals(e), client.Feedback.DecideProposal, &deckhandv1.DecideProposalRequest{ProposalId: args[0], Accept: accept, AsMemory: memory}, (*deckhandv1.DecideProposalResponse).GetProposal)
		},
	}
	if accept {
		cmd.Flags().BoolVar(&memory, "as-memory", false, "add the text to your own memory instead of the pattern")
	}
	return cmd
}
