package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/node/daemon"
	"github.com/deckhand-sh/deckhand/node/doctor"
)

func doctorCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether this machine can be a node, and say what to do",
		Long: `Checks what a node needs of its machine, its containerd and its hub. It changes
nothing, and may be run while the node does.

Exit codes: 0 nothing is in the way, 1 something is.`,
		Args: noArguments,
	}
	flags := cmd.Flags()
	flags.StringVar(&path, "config", "", "YAML file with these flags as keys")
	flags.String("log-level", "info", "")
	flags.String("log-format", "json", "")
	for _, name := range []string{"log-level", "log-format"} {
		flags.Lookup(name).Hidden = true // keys of the same file
	}
	daemon.Flags(flags)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var cfg daemon.Config
		if err := config.Load(flags, path, &cfg); err != nil {
			return usageError{err}
		}
		checks, err := cfg.Checks()
		if err != nil {
			return err
		}
		return report(cmd.OutOrStdout(), doctor.Run(cmd.Context(), checks))
	}
	return cmd
}

// report prints what was found, a line each, and what to do below it.
func report(out io.Writer, found []doctor.Finding) error {
	failed := 0
	for _, f := range found {
		if f.State == doctor.Fail {
			failed++
		}
		fmt.Fprintf(out, "%-4s  %-18s  %s\n", f.State, f.Name, f.Says)
		if f.Fix != "" {
			fmt.Fprintf(out, "%-4s  %-18s  -> %s\n", "", "", f.Fix)
		}
	}
	switch failed {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("one check failed")
	}
	return fmt.Errorf("%d checks failed", failed)
}
