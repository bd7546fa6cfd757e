// Package cli is the command line of deckhand-node: it runs the daemon, installs its
// systemd unit, and checks the machine. Main returns the exit code; errors are one line
// on standard error, without secrets.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	mango "github.com/muesli/mango-cobra"
	"github.com/muesli/roff"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/logging"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/version"
	"github.com/deckhand-sh/deckhand/node/daemon"
	"github.com/deckhand-sh/deckhand/node/upgrade"
)

// The exit codes.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2 // what was given is not valid
	exitDenied      = 4 // the hub does not let this machine in
	exitUnreachable = 5 // no hub answered
	// exitConfig is EX_CONFIG of sysexits.h: systemd does not restart the daemon. It must
	// not be 2, with which a Go program ends after a panic or the watchdog's SIGABRT.
	exitConfig = 78
)

// Main runs the command line of deckhand-node until SIGINT or SIGTERM, and
// returns its exit code. Errors are one line on errs.
func Main(ctx context.Context, args []string, out, errs io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once.
	defer context.AfterFunc(ctx, stop)()

	redactor := &redact.Redactor{}
	redactor.Add(os.Getenv("DECKHAND_JOIN_TOKEN"))
	cmd := command(errs, redactor)
	cmd.SetArgs(args)
	cmd.SetOut(out)
	cmd.SetErr(errs)
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	line := strings.ReplaceAll(strings.TrimSpace(redactor.String(err.Error())), "\n", "; ")
	// If standard error cannot be written to, there is no other place to report
	// it.
	_, _ = fmt.Fprintln(errs, "error: "+line)
	return exitCode(err)
}

// usageError is an error of what was given.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

// configError is an error of the daemon's configuration.
type configError struct{ error }

func (c configError) Unwrap() error { return c.error }

func exitCode(err error) int {
	enrolling := errors.As(err, new(daemon.EnrolError))
	switch {
	case errors.As(err, new(configError)):
		return exitConfig
	case errors.As(err, new(usageError)), fault.Is(err, fault.Invalid):
		return exitUsage
	case enrolling && fault.Is(err, fault.Unavailable):
		return exitUnreachable
	case enrolling && fault.Is(err, fault.Denied):
		return exitDenied
	}
	return exitFailed
}

func command(errs io.Writer, redactor *redact.Redactor) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "deckhand-node",
		Short: "Run this machine as a node: its jails, and the link to its hub",
		Long: `Runs this machine as a node of a Deckhand fleet. It dials its hub, and runs the
commands that the hub asks for in containerd jails.

The first start enrols the machine: run "deckhand node token" where you have the
command line, and give the token with the hub's address. The machine makes its
own key; later starts need neither.

Every flag can be set as DECKHAND_* in the environment (--hub-url is
DECKHAND_HUB_URL) or as a key of the --config file; a flag beats the
environment, which beats the file.

SIGTERM and SIGINT stop it in order. Commands in jails go on, and it finds them
again at its next start.

Exit codes: 0 stopped when told to, 1 failed, 2 wrong flags, 4 the hub refused to
enrol this machine, 5 the hub could not be reached to enrol, 78 wrong
configuration, with which systemd does not start it again.`,
		Example: `DECKHAND_JOIN_TOKEN=dhj_... deckhand-node --hub-url https://hub.example:7800
deckhand-node --config /etc/deckhand/node.yaml`,
		Version:       version.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArguments,
	}
	cmd.AddCommand(doctorCommand(), installCommand(), packCommand(), manCommand())
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w: see deckhand-node --help", err)}
	})
	cmd.CompletionOptions.HiddenDefaultCmd = true
	flags := cmd.Flags()
	printConfig := false
	flags.StringVar(&path, "config", "", "YAML file with these flags as keys; --print-config writes one to begin with")
	flags.BoolVar(&printConfig, "print-config", false, "write a configuration file with all keys, their defaults and what they are for, and run nothing")
	config.NotAKey(flags, "print-config")
	settings(flags)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if printConfig {
			return config.WriteTemplate(cmd.OutOrStdout(), flags, configTitle)
		}
		var logs logging.Config
		var cfg daemon.Config
		for _, dst := range []any{&logs, &cfg} {
			if err := config.Load(flags, path, dst); err != nil {
				return configError{err}
			}
		}
		redactor.Add(cfg.JoinToken.Reveal())
		cfg.Redact = redactor
		log, err := logging.New("deckhand-node", logs, errs, redactor)
		if err != nil {
			return configError{err}
		}
		cfg.Log = log
		environment := os.Environ()
		linked, err := upgrade.Trial()
		if err != nil {
			return err
		}
		cfg.Upgrades, cfg.Linked = true, linked
		cfg.NotifySocket = os.Getenv("NOTIFY_SOCKET")
		// Programs that it starts do not speak in its name.
		if err := os.Unsetenv("NOTIFY_SOCKET"); err != nil {
			return err
		}
		err = daemon.Run(cmd.Context(), cfg)
		var ready *upgrade.Ready
		switch {
		case errors.As(err, &ready) && linked != nil:
			return nil // it is tried itself: the one that tries it starts it again
		case errors.As(err, &ready):
			return ready.Take(cmd.Context(), os.Args, environment)
		}
		if fault.Is(err, fault.Invalid) {
			return configError{err}
		}
		return err
	}
	return cmd
}

// settings registers the flags that are keys of the configuration.
func settings(flags *pflag.FlagSet) {
	flags.String("log-level", "info", "trace, debug, info, warn or error")
	flags.String("log-format", "json", "json or text")
	daemon.Flags(flags)
}

// configTitle is the first comment of a configuration file.
const configTitle = "Configuration of deckhand-node: its flags are the keys here, and DECKHAND_NAME in the environment and flags override them.\n" +
	"Lines that begin with # are defaults, and change nothing. The first start needs hub-url, and DECKHAND_JOIN_TOKEN in node.env."

// manCommand prints the manual page, for packages.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man", Short: "Print the manual page", Hidden: true, Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			page, err := mango.NewManPage(1, cmd.Root())
			if err != nil {
				return fmt.Errorf("write the manual page: %w", err)
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), page.Build(roff.NewDocument()))
			return err
		},
	}
}

// noArguments refuses what is no flag.
func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("unexpected argument %q: see deckhand-node --help", args[0])}
	}
	return nil
}
