package policy

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// showOptions are the flags of policy show.
type showOptions struct {
	agent   string
	version int32
}

func showCommand(e *env.Env) *cobra.Command {
	var o showOptions
	cmd := &cobra.Command{
		Use: "show", Short: "Print a policy",
		Example: `deckhand policy show > policy.yaml
deckhand policy show --agent cleaner --version 2`,
		Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Policies.GetPolicy(cmd.Context(), &deckhandv1.GetPolicyRequest{AgentId: o.agent, Version: o.version})
			if err != nil {
				return err
			}
			p := res.GetPolicy()
			switch {
			case p.GetVersion() == 0 && p.GetYaml() == "":
				e.Notef("the agent has no policy of its own: that of the organisation holds")
				return nil
			case p.GetVersion() == 0:
				e.Notef("the default policy, until another is applied")
			default:
				e.Notef("version %d, by %s at %s", p.GetVersion(), termsafe.Line(p.GetCreatedBy()), output.Moment(p.GetCreatedAt()))
			}
			_, err = fmt.Fprintln(e.Out, strings.TrimRight(termsafe.Text(p.GetYaml()), "\n"))
			return err
		},
	}
	cmd.Flags().StringVar(&o.agent, "agent", "", "the agent whose policy it is (default: the organisation's)")
	cmd.Flags().Int32Var(&o.version, "version", 0, "an older version")
	return cmd
}
