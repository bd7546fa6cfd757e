package env

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Group returns a command that only has subcommands: alone it shows its help.
func Group(use, short, long, example string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Long: strings.TrimSpace(long), Example: strings.TrimSpace(example),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			// The largest edit distance of a suggestion.
			cmd.SuggestionsMinimumDistance = 2
			unknown := &UnknownCommand{Group: cmd.CommandPath(), Word: args[0]}
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				unknown.Near = near[0]
			}
			return Failed(ExitUsage, fault.New(fault.Invalid, "unknown command %q", args[0]).WithFix("see `%s --help`", cmd.CommandPath()).WithCause(unknown))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
}

// UnknownCommand is the cause of the error of a word that is no command.
type UnknownCommand struct {
	// Group is the command before it, with the program's name.
	Group string
	Word  string
	// Near is a command of the group that is written almost like it; or "".
	Near string
}

func (u *UnknownCommand) Error() string { return u.Group + " has no command " + u.Word }

// Args returns a check of a command's arguments. It names them in order; one in
// brackets is optional, and one that ends in "..." may be repeated.
func Args(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		for i, name := range names {
			switch {
			case strings.HasSuffix(strings.TrimSuffix(name, "]"), "...") && len(args) > i:
				return nil
			case len(args) <= i && !strings.HasPrefix(name, "["):
				return Usage(cmd, "%s is missing", strings.TrimSuffix(name, "..."))
			}
		}
		if len(args) > len(names) {
			return Usage(cmd, "unexpected argument %q (put text with spaces in quotes)", args[len(names)])
		}
		return nil
	}
}

// Optional returns an argument, or "" where it is absent.
func Optional(args []string, i int) string {
	if i < len(args) {
		return args[i]
	}
	return ""
}
