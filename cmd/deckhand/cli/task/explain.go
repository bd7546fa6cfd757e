package task

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/pattern"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func explainCommand(e *env.Env) *cobra.Command {
	var apply string
	cmd := &cobra.Command{
		Use: "explain TASK", Short: "Say why a task failed, and what would mend it",
		Long: `Names the class of the failure, its first cause with the step that shows it, failures of the
same kind with what solved them, and changes that would mend it. --apply DIGEST applies the
change that was shown with that digest: a new version of the agent's persona or of its
policy, or a fact in your memory. If the persona or the policy has changed since, nothing is applied.`,
		Example: "deckhand task explain task_3q9\ndeckhand task explain task_3q9 --apply 4f1c9a027be3d865", Args: env.Args("TASK"),
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
				for _, p := range res.GetProposals() {
					if p.GetDigest() != "" && p.GetDigest() == apply {
						return applyProposal(cmd, e, p)
					}
				}
				return env.Usage(cmd, "--apply %q: no change has this digest; look at the changes again: deckhand task explain %s", apply, res.GetTaskId())
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
				e.Notef("similar: %s of %s, %s", s.GetTaskId(), termsafe.Line(s.GetAgentName()), termsafe.Line(how))
			}
			for i, p := range res.GetProposals() {
				e.Notef("%d. %s", i+1, termsafe.Line(p.GetTitle()))
				if p.GetDiff() != "" {
					e.Notef("%s\napply it: deckhand task explain %s --apply %s", termsafe.Text(p.GetDiff()), res.GetTaskId(), p.GetDigest())
				}
			}
			if o := res.GetOffer(); o != nil {
				e.Notef("%s: the task %s", strings.TrimSpace("pattern "+o.GetPatternId()), pattern.Outcome(o))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&apply, "apply", "", "apply the change with this `DIGEST`")
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
	if p.GetKind() == "memory" {
		res, err := client.Memories.SetMemory(cmd.Context(), &deckhandv1.SetMemoryRequest{
			Scope: &deckhandv1.Scope{Kind: deckhandv1.ScopeKind_SCOPE_KIND_USER}, Type: deckhandv1.MemoryType_MEMORY_TYPE_FACT,
			Key: p.GetMemoryKey(), Value: structpb.NewStringValue(p.GetContent()),
		})
		if err != nil {
			return err
		}
		e.Notef("your later runs are told it; see: deckhand memory get %s", res.GetMemory().GetId())
		return nil
	}
	return env.Usage(cmd, "this proposal is advice: %s", termsafe.Line(p.GetTitle()))
}
