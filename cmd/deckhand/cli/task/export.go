package task

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func exportCommand(e *env.Env) *cobra.Command {
	format := "jsonl"
	cmd := &cobra.Command{
		Use: "export TASK", Short: "Export a task with its events, steps and logs, or its terminal recording",
		Long: `Writes one task to standard output. As jsonl: a line of JSON for the task, for each
event and each step with its pictures, and for each piece of what its commands wrote, byte for byte;
the last line is of the kind "end", and an export without it is not whole. As
asciicast: what its commands showed, one after the other, in the format of
asciinema (asciicast v3), for players. Secrets are masked.`,
		Example: `deckhand task export task_3q9 > task.jsonl
deckhand task export task_3q9 --format asciicast > task.cast`,
		Args: env.Args("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			formats := map[string]deckhandv1.ExportTaskFormat{
				"jsonl":     deckhandv1.ExportTaskFormat_EXPORT_TASK_FORMAT_JSONL,
				"asciicast": deckhandv1.ExportTaskFormat_EXPORT_TASK_FORMAT_ASCIICAST,
			}
			request := &deckhandv1.ExportTaskRequest{TaskId: args[0], Format: formats[format]}
			if request.GetFormat() == 0 {
				return env.Usage(cmd, "--format is %q, give jsonl or asciicast", format)
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			stream, err := client.History.ExportTask(cmd.Context(), request)
			if err != nil {
				return err
			}
			return env.Copy(e.Out, stream)
		},
	}
	cmd.Flags().StringVar(&format, "format", format, "jsonl, or asciicast for its terminal")
	return cmd
}
