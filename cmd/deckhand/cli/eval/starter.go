package eval

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

func starterCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "starter FOLDER", Short: "Write this release's scenarios into a new folder, as a starting point for your own",
		Example: "deckhand eval starter scenarios",
		Args:    env.Args("FOLDER"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := os.Mkdir(args[0], 0o755); errors.Is(err, fs.ErrExist) {
				return fault.New(fault.Exists, "%s is there already", args[0]).WithFix("name a folder that is not there")
			} else if err != nil {
				return env.Unreadable(args[0], err)
			}
			names, err := fs.Glob(Starter(), "*.yaml")
			if err != nil {
				return fmt.Errorf("list scenarios: %w", err)
			}
			for _, name := range names {
				data, err := fs.ReadFile(Starter(), name)
				if err != nil {
					return fmt.Errorf("read scenario %s: %w", name, err)
				}
				if err := os.WriteFile(filepath.Join(args[0], name), data, 0o644); err != nil { //nolint:gosec // scenarios contain no secrets
					return env.Unreadable(name, err)
				}
			}
			e.Notef("wrote %d scenarios; run them: deckhand eval run %s", len(names), args[0])
			return nil
		},
	}
}
