package cli

import (
	"fmt"
	"net/http"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/deckhand-sh/deckhand/internal/bytesize"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/node/daemon"
	"github.com/deckhand-sh/deckhand/node/pack"
)

// packFlags are those of all commands about packs.
type packFlags struct{ config, pins string }

// packCommand has the commands about packs: programs that jails are shown besides their image's.
func packCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pack",
		Short: "Install programs, such as Chromium, for jails whose image lacks them",
		Long: `Installs packs: archives of programs that all jails of this node are shown
read-only. The pack chromium has the browser for agents whose jail.image has none.

A pin in the file of pins says which archive a pack is made of:

  chromium: {url: "https://files.example.com/chromium.tar.zst", sha256: "..."}

An archive with another SHA-256 is refused. Run these commands as root, on the
node. They may be used while the node runs.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(packListCommand(), packFetchCommand(), packImportCommand(), packPruneCommand())
	return cmd
}

// register adds the flags to a command.
func (f *packFlags) register(cmd *cobra.Command, pins bool) {
	cmd.Flags().StringVar(&f.config, "config", "", "YAML file of the node, whose data-dir is used")
	if pins {
		cmd.Flags().StringVar(&f.pins, "pins", pack.DefaultPins, "YAML file with the pins")
		config.NotAKey(cmd.Flags(), "pins")
	}
	cmd.Flags().String("log-level", "info", "")
	cmd.Flags().String("log-format", "json", "")
	daemon.Flags(cmd.Flags())
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		flag.Hidden = flag.Name != "data-dir" && flag.Name != "config" && flag.Name != "pins" // keys of the same file
	})
}

// store opens the node's packs.
func (f *packFlags) store(cmd *cobra.Command) (*pack.Store, error) {
	var cfg daemon.Config
	if err := config.Load(cmd.Flags(), f.config, &cfg); err != nil {
		return nil, usageError{err}
	}
	return pack.Open(cfg.DataDir)
}

func packListCommand() *cobra.Command {
	var f packFlags
	cmd := &cobra.Command{Use: "list", Short: "List the packs of this node", Args: noArguments}
	f.register(cmd, false)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, err := f.store(cmd)
		if err != nil {
			return err
		}
		all, err := s.List()
		if err != nil {
			return err
		}
		for _, p := range all {
			fmt.Fprintln(cmd.OutOrStdout(), line(p))
		}
		return nil
	}
	return cmd
}

// line describes a version of a pack.
func line(p pack.Pack) string {
	state := "old"
	if p.Current {
		state = "current"
	}
	if p.InUse {
		state += ", in use"
	}
	return fmt.Sprintf("%s  %s  %s  %d files  %s  %s", p.Name, p.SHA256[:12], bytesize.Format(p.Bytes), p.Files, p.Installed.Format("2006-01-02 15:04"), state)
}

func packFetchCommand() *cobra.Command {
	var f packFlags
	cmd := &cobra.Command{Use: "fetch NAME", Short: "Download the archive that a pin names, and install it", Args: names(1)}
	f.register(cmd, true)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := f.store(cmd)
		if err != nil {
			return err
		}
		pin, err := pack.PinOf(f.pins, args[0])
		if err != nil {
			return err
		}
		p, err := s.Fetch(cmd.Context(), http.DefaultClient, pin)
		if err == nil {
			fmt.Fprintln(cmd.OutOrStdout(), line(p))
		}
		return err
	}
	return cmd
}

func packImportCommand() *cobra.Command {
	var f packFlags
	cmd := &cobra.Command{Use: "import NAME ARCHIVE", Short: "Install the archive of a pin from a file, for nodes without a network", Args: names(2)}
	f.register(cmd, true)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := f.store(cmd)
		if err != nil {
			return err
		}
		pin, err := pack.PinOf(f.pins, args[0])
		if err != nil {
			return err
		}
		file, err := os.Open(args[1])
		if err != nil {
			return usageError{err}
		}
		defer func() { _ = file.Close() }()
		p, err := s.Import(cmd.Context(), pin, file, args[1])
		if err == nil {
			fmt.Fprintln(cmd.OutOrStdout(), line(p))
		}
		return err
	}
	return cmd
}

func packPruneCommand() *cobra.Command {
	var f packFlags
	cmd := &cobra.Command{
		Use: "prune [NAME...]", Short: "Delete old versions of packs, and all of the packs that are named",
		Long: "Deletes the versions of packs that jails do not use any more, and all versions of the\npacks that are named. What a process uses is kept.",
	}
	f.register(cmd, false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := f.store(cmd)
		if err != nil {
			return err
		}
		deleted, kept, err := s.Prune(args...)
		for _, p := range deleted {
			fmt.Fprintln(cmd.OutOrStdout(), "deleted "+line(p))
		}
		for _, p := range kept {
			fmt.Fprintln(cmd.OutOrStdout(), "kept "+line(p))
		}
		return err
	}
	return cmd
}

// names refuses another number of arguments.
func names(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usageError{fmt.Errorf("%s takes %d arguments, not %d: see deckhand-node pack --help", cmd.Name(), n, len(args))}
		}
		return nil
	}
}
