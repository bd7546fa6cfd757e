package file

import (
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

func getCommand(e *env.Env, owner, example string) *cobra.Command {
	return &cobra.Command{
		Use: "get " + strings.ToUpper(owner) + " PATH [LOCAL]", Short: "Copy a file or folder out of the workspace",
		Long: `Copies a file, a folder, or what a pattern such as 'src/**/*.go' finds, into a
local folder, the current one by default. A file appears whole, once its digest
is right. What is there already is not sent again, and a copy that broke goes on
where it was when the same command is given within a day. Nothing in it is
masked, and taking it is recorded.`,
		Example: fmt.Sprintf("deckhand %s files get %s report.md", owner, example),
		Args:    env.Args(strings.ToUpper(owner), "PATH", "[LOCAL]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			into := env.Optional(args, 2)
			if into == "" {
				into = "."
			}
			// An agent wrote the names: nothing of it leaves the folder.
			root, err := os.OpenRoot(into)
			if err != nil {
				return fault.New(fault.Invalid, "%s is no folder to copy into: %v", into, err).WithFix("make it first")
			}
			defer root.Close()
			d := &download{client: client, root: root, owner: owner, ref: args[0]}
			d.above = path.Dir(path.Clean(strings.TrimPrefix(path.Clean(args[1]), "/workspace/")))
			return d.run(cmd.Context(), e, args[1])
		},
	}
}
