// Package file is the commands about files of workspaces: "files" of agent and
// task, which list, print, send and fetch them, and the transfers behind them.
//
// A download writes below its folder only, whatever names and links the hub
// sends, and replaces a file when all of it has arrived with the right digest.
// Run the command again to resume a transfer that was cut short.
package file

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Command makes the files command of agents or of tasks: owner is "agent"
// or "task".
// Command returns the command "files" of a noun.
func Command(e *env.Env, owner, example string) *cobra.Command {
	cmd := env.Group("files", "List, copy and export files of the workspace", "", fmt.Sprintf(`
deckhand %[1]s files ls %[2]s
deckhand %[1]s files cat %[2]s report.md
`, owner, example))
	cmd.AddCommand(listCommand(e, owner, example), catCommand(e, owner, example), exportCommand(e, owner, example),
		putCommand(e, owner, example), getCommand(e, owner, example), watchCommand(e, owner, example),
		sendCommand(e, owner, example))
	return cmd
}

func fileNoun() output.Noun[*deckhandv1.FileInfo] {
	return output.Noun[*deckhandv1.FileInfo]{
		Name: (*deckhandv1.FileInfo).GetPath,
		Columns: []output.Column[*deckhandv1.FileInfo]{
			{Header: "path", Value: (*deckhandv1.FileInfo).GetPath},
			{Header: "type", Value: (*deckhandv1.FileInfo).GetType},
			{Header: "size", Value: func(x *deckhandv1.FileInfo) string { return fmt.Sprint(x.GetSize()) }},
			{Header: "mode", Value: func(x *deckhandv1.FileInfo) string { return fmt.Sprintf("%04o", x.GetMode()) }, Wide: true},
			{Header: "modified", Value: func(x *deckhandv1.FileInfo) string { return output.Moment(x.GetModifiedAt()) }},
		},
	}
}
