package audit

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func exportCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.ExportAuditRequest{}
	cmd := &cobra.Command{
		Use: "export", Short: "Export the audit as signed JSON lines",
		Long: `Write the audit as JSON lines to standard output: the entries that are sealed, in
their order, with the signed heads of their chain. An entry is sealed within
seconds. deckhand audit verify needs no hub to tell whether any of it was changed.`,
		Example: `deckhand audit export > audit.jsonl
deckhand audit export --after 4200 > since.jsonl`,
		Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if request.GetAfter() < 0 {
				return env.Usage(cmd, "--after is %d, give 0 for all or a position", request.GetAfter())
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			stream, err := client.Audit.ExportAudit(cmd.Context(), request)
			if err != nil {
				return err
			}
			return env.Copy(e.Out, stream)
		},
	}
	cmd.Flags().Int64Var(&request.After, "after", 0, "only what is behind this position, or behind the nearest head below it")
	return cmd
}
