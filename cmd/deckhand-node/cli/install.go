package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/jointoken"
	"github.com/deckhand-sh/deckhand/packaging/systemd"
)

const (
	unitName = systemd.Node
	// written begins a unit that no package installed.
	written = "# Written by \"deckhand-node install\".\n"
	// configName and environmentName are in the configuration folder. The second
	// has the join token, which only root may read.
	configName      = "node.yaml"
	environmentName = "node.env"
)

// install holds the flags of "deckhand-node install".
type install struct {
	UnitDir   string        `koanf:"unit-dir"`
	ConfigDir string        `koanf:"config-dir"`
	HubURL    string        `koanf:"hub-url"`
	JoinToken config.Secret `koanf:"join-token"`
	Print     bool          `koanf:"print"`
	Start     bool          `koanf:"start"`
}

func installCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install the systemd unit of this program",
		Long: `Installs a systemd unit that runs this program, with its configuration in
/etc/deckhand. What is there already is left alone but for the unit. With --start
the unit is enabled and started as well.`,
		Example: `DECKHAND_JOIN_TOKEN=dhj_... deckhand-node install --hub-url https://hub.example:7800 --start
deckhand-node install --print`,
		Args: noArguments,
	}
	flags := cmd.Flags()
	flags.String("unit-dir", "/etc/systemd/system", "folder of systemd's units")
	flags.String("config-dir", "/etc/deckhand", "folder of the configuration")
	flags.String("hub-url", "", "the hub's API, for a new configuration")
	flags.String("join-token", "", "token that enrols this machine; rather set DECKHAND_JOIN_TOKEN")
	flags.Bool("print", false, "print the unit and change nothing")
	flags.Bool("start", false, "enable and start the unit")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var in install
		if err := config.Load(flags, "", &in); err != nil {
			return usageError{err}
		}
		return in.run(cmd.Context(), cmd.OutOrStdout())
	}
	return cmd
}

func (in install) run(ctx context.Context, out io.Writer) error {
	if in.JoinToken != "" {
		if _, err := jointoken.Parse(in.JoinToken.Reveal()); err != nil {
			return err
		}
	}
	unit, err := in.unit()
	if err != nil {
		return err
	}
	if in.Print {
		_, err := out.Write(unit)
		return err
	}
	if os.Geteuid() != 0 {
		return fault.New(fault.Precondition, "a service of the machine is installed by root").WithFix("run it with sudo")
	}
	if err := in.configure(out); err != nil {
		return err
	}
	path := filepath.Join(in.UnitDir, unitName)
	if err := os.WriteFile(path, unit, 0o644); err != nil {
		return fmt.Errorf("write the unit: %w", err)
	}
	fmt.Fprintln(out, "wrote "+path)
	if !in.Start {
		fmt.Fprintln(out, "now run: systemctl daemon-reload && systemctl enable --now "+unitName)
		return nil
	}
	for _, args := range [][]string{{"daemon-reload"}, {"enable", unitName}, {"restart", unitName}} {
		said, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(said))
		}
	}
	fmt.Fprintln(out, "started "+unitName+"; see: systemctl status "+unitName)
	return nil
}

// unit returns the unit's text.
func (in install) unit() ([]byte, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	text, err := systemd.Unit(unitName, self, in.ConfigDir)
	return []byte(written + text), err
}

// configure writes the configuration that is not there yet.
func (in install) configure(out io.Writer) error {
	if err := os.MkdirAll(in.ConfigDir, 0o755); err != nil {
		return fmt.Errorf("make the configuration folder: %w", err)
	}
	values := map[string]any{}
	if in.HubURL != "" {
		values["hub-url"] = in.HubURL
	}
	text, err := yaml.Parser().Marshal(values)
	if err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	files := []struct {
		name string
		text []byte
		mode os.FileMode
	}{{configName, append([]byte("# Every flag of deckhand-node is a key: see deckhand-node --help.\n"), text...), 0o644}}
	if in.JoinToken != "" {
		files = append(files, struct {
			name string
			text []byte
			mode os.FileMode
		}{environmentName, []byte("DECKHAND_JOIN_TOKEN=" + in.JoinToken.Reveal() + "\n"), 0o600})
	}
	for _, f := range files {
		path := filepath.Join(in.ConfigDir, f.name)
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.mode)
		if errors.Is(err, os.ErrExist) {
			fmt.Fprintln(out, "left "+path+" as it is")
			continue
		}
		if err != nil {
			return fmt.Errorf("write the configuration: %w", err)
		}
		_, err = file.Write(f.text)
		if cerr := file.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return fmt.Errorf("write the configuration: %w", err)
		}
		fmt.Fprintln(out, "wrote "+path)
	}
	return nil
}
