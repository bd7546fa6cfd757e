package cli

import (
	"fmt"
	"net/http"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/deckhand-sh/deckhand/internal/bytesize"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
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
	cmd.Flags().StringVar(&f.config, "config", "", "YAML file of the node, whose data-dir is used (default "+nodeConfig+", if it is there)")
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

// nodeConfig is the configuration of a node that was installed.
const nodeConfig = "/etc/deckhand/" + configName

// dataDir returns the data folder of the node.
func (f *packFlags) dataDir(cmd *cobra.Command) (string, error) {
	if f.config == "" {
		if _, err := os.Stat(nodeConfig); err == nil {
			f.config = nodeConfig
		}
	}
	var cfg daemon.Config
	if err := config.Load(cmd.Flags(), f.config, &cfg); err != nil {
		return "", usageError{err}
	}
	return cfg.DataDir, nil
}

// open opens the node's packs, for a pack more.
func (f *packFlags) open(cmd *cobra.Command) (*pack.Store, error) {
	dir, err := f.dataDir(cmd)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(dir); err != nil {
		return nil, fault.New(fault.Precondition, "there is no node with the data folder %s", dir).WithCause(err).
			WithFix("give the node's configuration with --config, or its folder with --data-dir")
	}
	return pack.Open(dir)
}

// install installs the archive of a pin with do, and prints the pack.
func (f *packFlags) install(cmd *cobra.Command, name string, do func(*pack.Store, pack.Pin) (pack.Pack, error)) error {
	s, err := f.open(cmd)
	if err != nil {
		return err
	}
	pin, err := pack.PinOf(f.pins, name)
	if err != nil {
		return err
	}
	p, err := do(s, pin)
	if err == nil {
		fmt.Fprintln(cmd.OutOrStdout(), line(p))
	}
	return err
}

func packListCommand() *cobra.Command {
	var f packFlags
	cmd := &cobra.Command{Use: "list", Short: "List the packs of this node", Args: noArguments}
	f.register(cmd, false)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		dir, err := f.dataDir(cmd)
		if err != nil {
			return err
		}
		all, err := pack.At(dir).List()
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
	if p.Broken {
		return fmt.Sprintf("%s  %s  %s, its record cannot be read: fetch or import it again", p.Name, p.SHA256[:12], state)
	}
	return fmt.Sprintf("%s  %s  %s  %d files  %s  %s", p.Name, p.SHA256[:12], bytesize.Format(p.Bytes), p.Files, p.Installed.Format("2006-01-02 15:04"), state)
}

func packFetchCommand() *cobra.Command {
	var f packFlags
	cmd := &cobra.Command{Use: "fetch NAME", Short: "Download the archive that a pin names, and install it", Args: names(1)}
	f.register(cmd, true)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return f.install(cmd, args[0], func(s *pack.Store, pin pack.Pin) (pack.Pack, error) {
			return s.Fetch(cmd.Context(), http.DefaultClient, pin)
		})
	}
	return cmd
}

func packImportCommand() *cobra.Command {
	var f packFlags
	cmd := &cobra.Command{Use: "import NAME ARCHIVE", Short: "Install the archive of a pin from a file, for nodes without a network", Args: names(2)}
	f.register(cmd, true)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return f.install(cmd, args[0], func(s *pack.Store, pin pack.Pin) (pack.Pack, error) {
			file, err := os.Open(args[1])
			if err != nil {
				return pack.Pack{}, usageError{err}
			}
			defer func() { _ = file.Close() }()
			return s.Import(cmd.Context(), pin, file, args[1])
		})
	}
	return cmd
}

func packPruneCommand() *cobra.Command {
	var f packFlags
	cmd := &cobra.Command{
		Use: "prune [NAME...]", Short: "Delete old versions of packs, and all of the packs that are named",
		Long: "Deletes the versions of packs that jails do not use any more, and all versions of the\npacks that are named. What a process runs or has mapped is kept.",
	}
	f.register(cmd, false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir, err := f.dataDir(cmd)
		if err != nil {
			return err
		}
		deleted, kept, err := pack.At(dir).Prune(cmd.Context(), args...)
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
