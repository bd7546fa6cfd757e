package agent

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func diffCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.DiffAgentVersionsRequest{}
	cmd := &cobra.Command{
		Use: "diff NAME", Short: "Compare two versions of an agent's persona",
		Long:    "Prints a unified diff: by default of the newest version and the one before.",
		Example: "deckhand agent diff log-triage\ndeckhand agent diff log-triage --from 1 --to 2", Args: env.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.AgentId = args[0]
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Agents.DiffAgentVersions(cmd.Context(), request)
			if err != nil {
				return err
			}
			if !e.Format.ForPeople() {
				return output.One(e.Printer(), output.Noun[*deckhandv1.DiffAgentVersionsResponse]{
					Name: func(*deckhandv1.DiffAgentVersionsResponse) string { return args[0] },
				}, res)
			}
			if res.GetDiff() == "" {
				e.Notef("versions %d and %d are the same", res.GetFrom(), res.GetTo())
				return nil
			}
			var out strings.Builder
			for line := range strings.Lines(res.GetDiff()) {
				out.WriteString(termsafe.Line(strings.TrimRight(line, "\n")) + "\n")
			}
			_, err = e.Out.Write([]byte(out.String()))
			return err
		},
	}
	cmd.Flags().Int32Var(&request.From, "from", 0, "the older version; the one before --to by default")
	cmd.Flags().Int32Var(&request.To, "to", 0, "the newer version; the newest by default")
	return cmd
}
