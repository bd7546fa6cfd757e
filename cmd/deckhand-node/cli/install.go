package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/jointoken"
	"github.com/deckhand-sh/deckhand/internal/wholefile"
	"github.com/deckhand-sh/deckhand/node/daemon"
	"github.com/deckhand-sh/deckhand/node/identity"
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
	// joinTokenVariable has the token in it.
	joinTokenVariable = "DECKHAND_JOIN_TOKEN" //nolint:gosec // the name of it
	// secretMode is that of new files: configuration may have passwords.
	secretMode = 0o600
)

// install holds the flags of "deckhand-node install".
type install struct {
	UnitDir   string        `koanf:"unit-dir"`
	ConfigDir string        `koanf:"config-dir"`
	HubURL    string        `koanf:"hub-url"`
	JoinToken config.Secret `koanf:"join-token"`
	Print     bool          `koanf:"print"`
	Start     bool          `koanf:"start"`

	// packaged are the folders in which a package's unit may be.
	packaged []string
}

func installCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install the systemd unit of this program",
		Long: `Installs a systemd unit that runs this program, with its configuration in
/etc/deckhand. Where a package has installed its unit, that one is used. In a
configuration that is there already, hub-url is set, and the join token of a machine
that is not enrolled; the rest is left alone. With --start the unit is enabled and
started as well.`,
		Example: `DECKHAND_JOIN_TOKEN=dhj_... deckhand-node install --hub-url https://hub.example:7800 --start
deckhand-node install --print`,
		Args: noArguments,
	}
	flags := cmd.Flags()
	flags.String("unit-dir", "/etc/systemd/system", "folder of systemd's units")
	flags.String("config-dir", "/etc/deckhand", "folder of the configuration")
	flags.String("hub-url", "", "the hub's API")
	flags.String("join-token", "", "token that enrols this machine; rather set DECKHAND_JOIN_TOKEN")
	flags.Bool("print", false, "print the unit and change nothing")
	flags.Bool("start", false, "enable and start the unit")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		in := install{packaged: systemd.PackagedDirs}
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
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if err := systemd.CheckProgram(self); err != nil {
		return err
	}
	if err := in.configure(out); err != nil {
		return err
	}
	if err := in.useUnit(out, unit); err != nil {
		return err
	}
	if !in.Start {
		fmt.Fprintln(out, "now run: systemctl daemon-reload && systemctl enable --now "+unitName)
		return nil
	}
	for _, args := range [][]string{{"daemon-reload"}, {"enable", unitName}, {"restart", unitName}} {
		if err := systemd.Control(ctx, args...); err != nil {
			return err
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

// useUnit writes the unit, unless a package has installed one: two would run two versions
// of the program in turn, as packages are upgraded and this command is run again.
func (in install) useUnit(out io.Writer, unit []byte) error {
	path := filepath.Join(in.UnitDir, unitName)
	have, err := os.ReadFile(path)
	switch ours := bytes.HasPrefix(have, []byte(written)); {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read the unit: %w", err)
	case err == nil && !ours:
		return fault.New(fault.Precondition, "%s was written by somebody else, and would be replaced", path).
			WithFix("remove it, or start the daemon with it: systemctl enable --now %s", unitName)
	}
	for _, dir := range in.packaged {
		packaged := filepath.Join(dir, unitName)
		if _, err := os.Stat(packaged); err != nil {
			continue
		}
		if have != nil {
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("remove the unit that is in the way of the package's: %w", err)
			}
			fmt.Fprintln(out, "removed "+path+", which was in the way of the package's unit")
		}
		fmt.Fprintln(out, "the unit is "+packaged+", of the package")
		return nil
	}
	if err := wholefile.Write(path, unit, 0o644); err != nil {
		return fmt.Errorf("write the unit: %w", err)
	}
	fmt.Fprintln(out, "wrote "+path)
	return nil
}

// configure writes the given settings to the configuration files, and creates a missing
// file from the template. Other settings stay.
func (in install) configure(out io.Writer) error {
	if err := os.MkdirAll(in.ConfigDir, 0o755); err != nil {
		return fmt.Errorf("make the configuration folder: %w", err)
	}
	flags := pflag.NewFlagSet("deckhand-node", pflag.ContinueOnError)
	settings(flags)
	if in.HubURL != "" {
		if err := flags.Set("hub-url", in.HubURL); err != nil {
			return err
		}
	}
	path := filepath.Join(in.ConfigDir, configName)
	text, mode, err := read(path)
	if err != nil {
		return err
	}
	made := text == nil
	if made {
		var b bytes.Buffer
		if err := config.WriteTemplate(&b, flags, configTitle); err != nil {
			return err
		}
		text = b.Bytes()
	}
	changed, _, err := config.Edit(text, flags)
	if err != nil {
		return err
	}
	// As the daemon will read it: what is wrong is said now, and nothing is changed.
	var cfg daemon.Config
	if err := load(flags, path, changed, &cfg); err != nil {
		return fault.New(fault.Invalid, "%s", err).WithFix("correct it, and run this again")
	}
	tokenNeeded, err := in.needsToken(filepath.Join(cfg.DataDir, daemon.IdentityDir))
	if err != nil {
		return err
	}
	if err := in.write(out, path, text, changed, mode, made); err != nil {
		return err
	}
	switch {
	case in.JoinToken == "":
		return nil
	case !tokenNeeded:
		fmt.Fprintln(out, "this machine is enrolled already, and does not need the join token")
		return nil
	}
	return in.keepToken(out)
}

// load reads a configuration that is not in its place yet.
func load(flags *pflag.FlagSet, path string, text []byte, cfg *daemon.Config) (err error) {
	file, err := os.CreateTemp("", "node-*.yaml") // mode 0600
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(file.Name())) }()
	_, err = file.Write(text)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := config.Load(flags, file.Name(), cfg); err != nil {
		return errors.New(strings.ReplaceAll(err.Error(), file.Name(), path))
	}
	return nil
}

// needsToken reports whether the daemon will use the join token, and refuses a token of
// another hub than the one that this machine belongs to.
func (in install) needsToken(identityDir string) (bool, error) {
	if _, err := os.Stat(identityDir); errors.Is(err, fs.ErrNotExist) || in.JoinToken == "" {
		return true, nil
	}
	known, err := identity.Open(identity.Config{Dir: identityDir})
	if err != nil {
		return false, fmt.Errorf("look whether this machine is enrolled: %w", err)
	}
	token, err := jointoken.Parse(in.JoinToken.Reveal())
	if err != nil {
		return false, err
	}
	// With an expired certificate, the daemon enrols again.
	return !known.Enrolled() || known.Lapsed(), known.CheckToken(token)
}

// keepToken puts the join token where the unit reads it. A token from before is replaced:
// it may be spent or too old.
func (in install) keepToken(out io.Writer) error {
	path := filepath.Join(in.ConfigDir, environmentName)
	text, _, err := read(path)
	if err != nil {
		return err
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(strings.TrimSpace(line), joinTokenVariable+"=") {
			lines = append(lines, strings.TrimRight(line, "\n"))
		}
	}
	lines = append(lines, joinTokenVariable+"="+in.JoinToken.Reveal())
	return in.write(out, path, text, []byte(strings.Join(lines, "\n")+"\n"), secretMode, text == nil)
}

// read returns the content and the mode of a file. For a missing file it returns nil and
// the mode of new files.
func read(path string) ([]byte, os.FileMode, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, secretMode, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read the configuration: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, fmt.Errorf("read the configuration: %w", err)
	}
	return append([]byte{}, text...), info.Mode().Perm(), nil
}

// write replaces a file where it changes, and says so.
func (in install) write(out io.Writer, path string, before, after []byte, mode os.FileMode, made bool) error {
	if !made && bytes.Equal(before, after) {
		fmt.Fprintln(out, "left "+path+" as it is")
		return nil
	}
	if err := wholefile.Write(path, after, mode); err != nil {
		return err
	}
	fmt.Fprintln(out, "wrote "+path)
	return nil
}
