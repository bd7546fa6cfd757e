package agent

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func restoreCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.RestoreAgentVersionRequest{}
	cmd := &cobra.Command{
		Use: "restore NAME --version N", Short: "Apply an older version of an agent's persona again",
		Long:    "Stores a new version with the text of the older one. Its runs have your rights from then on, as after agent apply.",
		Example: "deckhand agent restore log-triage --version 1", Args: env.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.AgentId = args[0]
			if request.GetVersion() < 1 {
				return env.Usage(cmd, "--version is missing: agent versions lists them")
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Agents.RestoreAgentVersion(cmd.Context(), request)
			if err != nil {
				return err
			}
			if res.GetChange() == "unchanged" {
				e.Notef("the newest version has that text already")
			}
			noteTriggers(e, client.URL(), res.GetTriggers())
			return output.Brief(e.Printer(), noun(e), res.GetAgent())
		},
	}
	cmd.Flags().Int32Var(&request.Version, "version", 0, "the version to restore")
	return cmd
}
