package policy

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/internal/literal"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// replayOptions are the flags of policy replay.
type replayOptions struct {
	agent string
	steps int32
}

func replayCommand(e *env.Env) *cobra.Command {
	var o replayOptions
	cmd := &cobra.Command{
		Use: "replay FILE", Short: "Replay a policy on the newest steps",
		Example: `deckhand policy replay policy.yaml
deckhand policy replay cleaner.yaml --agent cleaner --steps 1000`,
		Args: env.Args("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := readPolicy(e, args[0])
			if err != nil {
				return err
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Policies.ReplayPolicy(cmd.Context(), &deckhandv1.ReplayPolicyRequest{
				AgentId: o.agent, Yaml: text, Steps: o.steps, File: args[0],
			})
			if err != nil {
				return err
			}
			e.Notef("%d of %d steps would be decided differently.", len(res.GetChanged()), res.GetSteps())
			if n := res.GetUnreadable(); n > 0 {
				e.Notef("%d more could not be read", n)
			}
			return output.List(e.Printer(), replayedNoun(), res.GetChanged())
		},
	}
	cmd.Flags().StringVar(&o.agent, "agent", "", "only steps of this agent; the file takes the place of its own policy")
	cmd.Flags().Int32Var(&o.steps, "steps", 200, "how many of the newest steps, at most 2000")
	return cmd
}

func replayedNoun() output.Noun[*deckhandv1.ReplayedStep] {
	return output.Noun[*deckhandv1.ReplayedStep]{
		Name: (*deckhandv1.ReplayedStep).GetStepId,
		Columns: []output.Column[*deckhandv1.ReplayedStep]{
			{Header: "step", Value: (*deckhandv1.ReplayedStep).GetStepId},
			{Header: "agent", Value: (*deckhandv1.ReplayedStep).GetAgentName},
			{Header: "tool", Value: (*deckhandv1.ReplayedStep).GetTool},
			{Header: "was", Value: func(x *deckhandv1.ReplayedStep) string { return effectOf(x.GetWas()) }},
			{Header: "would be", Value: func(x *deckhandv1.ReplayedStep) string { return effectOf(x.GetWouldBe()) }},
			{Header: "rule", Value: func(x *deckhandv1.ReplayedStep) string { return x.GetWouldBe().GetRule() }},
			{Header: "what", Value: func(x *deckhandv1.ReplayedStep) string { return literal.Line(x.GetPreview()) }, Max: 60},
			{Header: "task", Value: (*deckhandv1.ReplayedStep).GetTaskId, Wide: true},
			{Header: "why", Value: func(x *deckhandv1.ReplayedStep) string { return x.GetWouldBe().GetWhy() }, Wide: true},
		},
	}
}
