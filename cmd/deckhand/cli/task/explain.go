package task

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/pattern"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func explainCommand(e *env.Env) *cobra.Command {
	var apply int
	cmd := &cobra.Command{
		Use: "explain TASK", Short: "Say why a task failed, and what would mend it",
		Long: `Names the class of the failure, its first cause with the step that shows it, failures of the
same kind with what solved them, and changes that would mend it. --apply N applies the
change with number N: a new version of the agent's persona, or of its policy.`,
		Example: "deckhand task explain task_3q9\ndeckhand task explain task_3q9 --apply 1", Args: env.Args("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Insights.ExplainTask(cmd.Context(), &deckhandv1.ExplainTaskRequest{TaskId: args[0]})
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("apply") {
				if apply < 1 || apply > len(res.GetProposals()) {
					return env.Usage(cmd, "--apply %d: there are %d proposals", apply, len(res.GetProposals()))
				}
				return applyProposal(cmd, e, res.GetProposals()[apply-1])
			}
			type explanation = *deckhandv1.ExplainTaskResponse
			if err := output.One(e.Printer(), output.Noun[explanation]{
				Name: explanation.GetTaskId,
				Columns: []output.Column[explanation]{
					{Header: "task", Value: explanation.GetTaskId},
					{Header: "class", Value: explanation.GetClass},
					{Header: "cause", Value: explanation.GetCause},
					{Header: "step", Value: func(x explanation) string {
						if x.GetStepId() == "" {
							return ""
						}
						return fmt.Sprintf("%d %s (%s)", x.GetStepNumber(), x.GetTool(), x.GetStepId())
					}},
					{Header: "evidence", Block: true, Value: explanation.GetEvidence},
				},
			}, res); err != nil || !e.Format.ForPeople() {
				return err
			}
			if !res.GetFailed() {
				e.Notef("the task has not failed")
			}
			for _, s := range res.GetSimilar() {
				how := "nothing solved it yet"
				if s.GetSolvedByTaskId() != "" {
					how = fmt.Sprintf("solved by %s: %s", s.GetSolvedByTaskId(), s.GetSolvedHow())
				}
				e.Notef("similar: %s of %s, %s", s.GetTaskId(), s.GetAgentName(), how)
			}
			for i, p := range res.GetProposals() {
				e.Notef("%d. %s", i+1, p.GetTitle())
				if p.GetDiff() != "" {
					e.Notef("%s\napply it: deckhand task explain %s --apply %d", p.GetDiff(), res.GetTaskId(), i+1)
				}
			}
			if o := res.GetOffer(); o != nil {
				e.Notef("pattern %s: the task %s", o.GetPatternId(), pattern.Outcome(o))
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&apply, "apply", 0, "apply the change with this number")
	cmd.Flags().Lookup("apply").DefValue = ""
	return cmd
}

// applyProposal applies a change that mends a failure, as the caller.
func applyProposal(cmd *cobra.Command, e *env.Env, p *deckhandv1.FailureProposal) error {
	client, err := e.Client()
	if err != nil {
		return err
	}
	switch p.GetKind() {
	case "persona":
		now, err := client.Agents.GetAgent(cmd.Context(), &deckhandv1.GetAgentRequest{AgentId: p.GetAgentId()})
		if err != nil {
			return err
		}
		res, err := client.Agents.ApplyAgent(cmd.Context(), &deckhandv1.ApplyAgentRequest{Filename: p.GetAgentName() + ".md", Markdown: p.GetContent(), Script: now.GetVersion().GetScript()})
		if err != nil {
			return err
		}
		e.Notef("agent %s is %s, version %d", p.GetAgentName(), res.GetChange(), res.GetAgent().GetVersion())
		return nil
	case "policy":
		res, err := client.Policies.ApplyPolicy(cmd.Context(), &deckhandv1.ApplyPolicyRequest{AgentId: p.GetAgentId(), Yaml: p.GetContent(), File: "policy.yaml"})
		if err != nil {
			return err
		}
		e.Notef("the policy of %s has version %d", p.GetAgentName(), res.GetPolicy().GetVersion())
		return nil
	}
	return env.Usage(cmd, "this proposal is advice: %s", p.GetTitle())
}
