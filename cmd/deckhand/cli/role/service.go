package role

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/greeting"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/remote"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/up"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/wholefile"
	"github.com/deckhand-sh/deckhand/packaging/systemd"
)

// The flags that make `deckhand up` a service, and where its files are.
const (
	installFlag   = "install"
	uninstallFlag = "uninstall"
	rootFlag      = "install-root"

	etcDir  = "/etc/deckhand"
	upFile  = "up.yaml"
	unitDir = "/etc/systemd/system"
	// writtenBy begins a unit that no package installed.
	writtenBy = "# Written by \"deckhand up --install\".\n"
)

func serviceFlags(flags *pflag.FlagSet) {
	flags.Bool(installFlag, false, "install a systemd service that runs this with the other flags, and start it")
	flags.Bool(uninstallFlag, false, "stop and remove the service; data and configuration stay")
	flags.String(rootFlag, "", "with --install: the root folder of another system, such as an image; nothing is started")
	for _, name := range []string{installFlag, uninstallFlag, rootFlag} {
		config.NotAKey(flags, name)
	}
	flags.Lookup(rootFlag).Hidden = true
}

// installer makes a service of `deckhand up`.
type installer struct {
	env   *env.Env
	flags *pflag.FlagSet
	// root is that of the system in which it is installed; "" for the running one.
	root string
}

// service installs or removes the service where flags say so.
func service(ctx context.Context, e *env.Env, flags *pflag.FlagSet, path string) (done bool, err error) {
	// The flags are ours and of these types: reading them cannot fail.
	install, _ := flags.GetBool(installFlag)
	uninstall, _ := flags.GetBool(uninstallFlag)
	root, _ := flags.GetString(rootFlag)
	s := installer{env: e, flags: flags, root: root}
	switch {
	case !install && !uninstall:
		return false, nil
	case install && uninstall:
		return true, env.Failed(env.ExitUsage, fault.New(fault.Invalid, "--install and --uninstall exclude one another").WithFix("leave one out"))
	case path != "":
		return true, env.Failed(env.ExitUsage, fault.New(fault.Invalid, "the service reads %s/%s, and --config names %s", etcDir, upFile, path).
			WithFix("copy it there, and leave out --config"))
	case os.Geteuid() != 0:
		return true, fault.New(fault.Precondition, "a service of the machine is installed by root").WithFix("run it with sudo")
	case root == "" && !runsSystemd():
		return true, fault.New(fault.Precondition, "this machine does not run systemd").
			WithFix("have its own service manager run `deckhand up --log-format json`, which ends on SIGTERM")
	case uninstall:
		return true, s.uninstall(ctx)
	}
	return true, s.install(ctx)
}

// runsSystemd reports whether systemd runs this machine (sd_booted(3)).
func runsSystemd() bool {
	info, err := os.Stat("/run/systemd/system")
	return err == nil && info.IsDir()
}

// install writes configuration and unit, starts the service, and greets.
func (s installer) install(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if err := systemd.CheckProgram(self); err != nil {
		return err
	}
	path := filepath.Join(s.root, unitDir, systemd.Up)
	if err := ours(path); err != nil {
		return err
	}
	if err := s.configure(); err != nil {
		return err
	}
	// As the service will read it: what is wrong is said now.
	var cfg up.Config
	if err := config.Load(s.flags, filepath.Join(s.root, etcDir, upFile), &cfg); err != nil {
		return env.Failed(env.ExitUsage, fault.New(fault.Invalid, "%s", err))
	}
	unit, err := systemd.Unit(systemd.Up, self, etcDir)
	if err != nil {
		return err
	}
	if packaged := s.packaged(unit); packaged != "" {
		s.env.Notef("the unit is %s, of the package", packaged)
	} else {
		if err := writeFile(path, writtenBy+unit, 0o644); err != nil {
			return err
		}
		s.env.Notef("wrote %s", path)
	}
	if s.root != "" {
		return s.systemctl(ctx, "enable", systemd.Up)
	}
	for _, args := range [][]string{{"daemon-reload"}, {"enable", systemd.Up}} {
		if err := s.systemctl(ctx, args...); err != nil {
			return err
		}
	}
	s.env.Notef("starting; the first start makes a database, which takes some seconds")
	// It returns when the service says that it is ready.
	if err := s.systemctl(ctx, "restart", systemd.Up); err != nil {
		return fault.New(fault.Precondition, "the service does not start: %s", s.lastError(ctx)).
			WithFix("mend what it says in %s/%s, then: systemctl restart deckhand; the whole log: journalctl -u deckhand", etcDir, upFile).WithCause(err)
	}
	return s.greet(ctx, cfg)
}

// ours refuses to replace a unit that a person wrote.
func ours(path string) error {
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("read the unit: %w", err)
	case !bytes.HasPrefix(text, []byte(writtenBy)):
		return fault.New(fault.Precondition, "%s was not written by --install, and would be replaced", path).
			WithFix("start the service with it (systemctl enable --now deckhand), or move it away: settings of your own belong in the file that this makes: systemctl edit deckhand.service")
	}
	return nil
}

// greet says what a person can do now.
func (s installer) greet(ctx context.Context, cfg up.Config) error {
	client, err := adminOf(cfg.Hub.DataDir)
	if err != nil {
		return err
	}
	who := ""
	if sudo, used := sudoUser(); used {
		if who, err = sudo.connect(ctx, client, cfg.Hub.DataDir); err != nil {
			who = fmt.Sprintf("%s cannot use this hub without sudo: %s.", sudo.name, err)
		}
	}
	greeting.New(greeting.Config{
		Out: s.env.Err, DataDir: cfg.Hub.DataDir, Slots: cfg.Worker.Slots, Limits: cfg.Node.Pressure, SSH: remote.Host(),
		Service: "deckhand", ConfigFile: filepath.Join(etcDir, upFile),
	}).Up(ctx, client, who)
	return nil
}

// uninstall stops and disables the service, and removes a unit that install wrote.
func (s installer) uninstall(ctx context.Context) error {
	disable := []string{"disable", systemd.Up}
	if s.root == "" {
		disable = []string{"disable", "--now", systemd.Up}
	}
	if err := s.systemctl(ctx, disable...); err != nil {
		return err
	}
	path := filepath.Join(s.root, unitDir, systemd.Up)
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.env.Notef("stopped and disabled; the unit belongs to a package, which removes it")
	case err != nil:
		return fmt.Errorf("read the unit: %w", err)
	case !bytes.HasPrefix(text, []byte(writtenBy)):
		s.env.Notef("stopped and disabled; %s stays: it was not written by --install", path)
	default:
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove the unit: %w", err)
		}
		s.env.Notef("removed %s", path)
	}
	if s.root == "" {
		if err := s.systemctl(ctx, "daemon-reload"); err != nil {
			return err
		}
	}
	dir, _ := s.flags.GetString("data-dir")
	s.env.Notef("data stays in %s, and the configuration in %s: remove them to delete everything", dir, etcDir)
	return nil
}

// configure writes the given flags to the configuration file, and creates a missing file
// from the template.
func (s installer) configure() error {
	path := filepath.Join(s.root, etcDir, upFile)
	text, err := os.ReadFile(path)
	made := errors.Is(err, fs.ErrNotExist)
	if err != nil && !made {
		return fmt.Errorf("read the configuration: %w", err)
	}
	if made {
		var b bytes.Buffer
		if err := config.WriteTemplate(&b, s.flags, role[up.Config]{use: "up"}.title()); err != nil {
			return err
		}
		text = b.Bytes()
	}
	changed, keys, err := config.Edit(text, s.flags)
	if err != nil {
		return err
	}
	if len(keys) > 0 || made {
		// It may have passwords.
		if err := writeFile(path, string(changed), 0o600); err != nil {
			return err
		}
		said := "wrote " + path
		if len(keys) > 0 {
			said += ": " + strings.Join(keys, ", ")
		}
		s.env.Notef("%s", said)
	}
	if names := config.Environment(s.flags); len(names) > 0 {
		s.env.Notef("not kept: %s of this environment; put lines such as NAME=value into %s/up.env", strings.Join(names, ", "), etcDir)
	}
	return nil
}

// packaged returns the unit of a package that runs this program, or "".
func (s installer) packaged(unit string) string {
	if _, err := os.Stat(filepath.Join(s.root, unitDir, systemd.Up)); err == nil {
		return "" // it comes before those of packages
	}
	for _, dir := range systemd.PackagedDirs {
		text, err := os.ReadFile(filepath.Join(s.root, dir, systemd.Up))
		if err == nil && string(text) == unit {
			return filepath.Join(dir, systemd.Up)
		}
	}
	return ""
}

func (s installer) systemctl(ctx context.Context, args ...string) error {
	if s.root != "" {
		args = append([]string{"--root=" + s.root}, args...)
	}
	return systemd.Control(ctx, args...)
}

// lastError returns the last error that the service wrote.
func (s installer) lastError(ctx context.Context) string {
	said, err := exec.CommandContext(ctx, "journalctl", "--unit", systemd.Up, "--lines", "50", "--output", "cat", "--no-pager").Output()
	if err != nil {
		return "its log cannot be read"
	}
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if rest, ok := strings.CutPrefix(lines[i], "error: "); ok {
			return rest
		}
	}
	return lines[len(lines)-1]
}

// writeFile replaces a file whole, and makes its folder.
func writeFile(path, text string, mode os.FileMode) error {
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = wholefile.Write(path, []byte(text), mode)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
