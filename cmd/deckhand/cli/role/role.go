// Package role is the commands that run Deckhand itself: hub, worker and up,
// and the rotation of the hub's root key, which works on its database. It is the
// only package of the command line that links the hub, the worker and the node.
//
// A role reads its configuration from flags, environment and a file, starts its
// service, and runs until the context ends or the service does. The exit code
// is 0 after an orderly stop. Secrets of the configuration are removed from
// logs and errors.
package role

import (
	"cmp"
	"context"
	"fmt"
	"io"
	stdlog "log"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/datadir"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/logging"
	"github.com/deckhand-sh/deckhand/internal/memtrim"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/tracing"
)

// defaultDataDir is datadir.Default for a flag's default; empty where there is
// none, which the role then refuses.
func defaultDataDir() string {
	dir, err := datadir.Default()
	if err != nil {
		return ""
	}
	return dir
}

// hubDataDir is the folder that systemd made for the hub's service, and defaultDataDir
// elsewhere.
func hubDataDir() string {
	if dir := config.StateDirectory(); dir != "" {
		return dir
	}
	return defaultDataDir()
}

// role is a command that runs a part of Deckhand until it is told to stop. C
// is the role's Config: a struct whose koanf tags are the names of its flags.
type role[C any] struct {
	use, short, long, example string
	// serviceDir is the data folder of the role as a service of the machine; empty for datadir.System.
	serviceDir string
	// flags registers the role's flags, with their defaults.
	flags func(*pflag.FlagSet)
	// stopping returns how long what runs may go on at a stop; nil for not at all.
	stopping func(cfg C) time.Duration
	// words says that a person at a terminal gets words instead of a log, unless
	// --log-format asks for one: complete then calls equipment.greet.
	words bool
	// instead, if set, may do something else than run the role; done says that it did.
	instead func(ctx context.Context, e *env.Env, flags *pflag.FlagSet, path string) (done bool, err error)
	// complete checks the configuration and makes the service, not yet started.
	complete func(ctx context.Context, cfg C, with equipment) (lifecycle.Service, error)
}

// equipment is what every role gets: a logger whose sink is masked by the
// redactor, and a tracer, nil where nobody wants traces.
type equipment struct {
	log      hclog.Logger
	redactor *redact.Redactor
	tracer   *tracing.Tracer
	// words is where a person reads; nil where the log is all that is written.
	words *words
}

// words is a terminal, and the log that is kept out of it.
type words struct {
	terminal io.Writer
	log      *sink
}

// sink is a writer of the log that becomes known when the data folder is.
type sink struct {
	mu  sync.Mutex
	out io.Writer
}

func (s *sink) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out == nil {
		return len(line), nil
	}
	return s.out.Write(line)
}

// to sends the log to a writer from now on.
func (s *sink) to(out io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = out
}

// roleOptions are what the flags of a role fill in.
type roleOptions struct {
	path string
	// print writes a configuration file instead of running.
	print bool
}

// roleCommand makes the command of a role. Its configuration comes from flags,
// DECKHAND_* in the environment and the YAML file of --config, in that order.
// The command ends with 0 when it was told to stop and everything has ended in
// order.
func roleCommand[C any](e *env.Env, r role[C]) *cobra.Command {
	var o roleOptions
	cmd := &cobra.Command{
		Use: r.use, Short: r.short, Long: strings.TrimSpace(r.long), Example: strings.TrimSpace(r.example),
		Args: env.Args(),
	}
	flags := cmd.Flags()
	flags.StringVar(&o.path, "config", "", "file with these flags as keys, in YAML; --print-config writes one to begin with")
	flags.BoolVar(&o.print, "print-config", false, "write a configuration file with all keys, their defaults and what they are for, and run nothing")
	config.NotAKey(flags, "print-config")
	flags.String("log-level", "info", "how much is logged: trace, debug, info, warn or error")
	if r.words {
		flags.String("log-format", "", "write the log to standard error, as json or text; on a terminal, words for people by default, and the log in DATA-DIR/log/up.jsonl")
	} else {
		flags.String("log-format", "json", "how the log is written: json or text")
	}
	r.flags(flags)
	// The flags of commands that call a hub mean nothing here.
	cmd.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) { f.Hidden = true })
		cmd.Root().HelpFunc()(cmd, args)
	})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var stray error
		cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) {
			if f.Changed {
				stray = env.Usage(cmd, "this command has no --%s", f.Name)
			}
		})
		if stray != nil {
			return stray
		}
		if o.print {
			if f := flags.Lookup("data-dir"); f != nil {
				f.DefValue = cmp.Or(r.serviceDir, datadir.System) // whichever user prints the template
			}
			return config.WriteTemplate(e.Out, flags, r.title())
		}
		if r.instead != nil {
			if done, err := r.instead(cmd.Context(), e, flags, o.path); done || err != nil {
				return err
			}
		}
		return runRole(cmd.Context(), e, r, flags, o.path)
	}
	return cmd
}

// title is the first comment of the role's configuration file.
func (r role[C]) title() string {
	return fmt.Sprintf("Configuration of `deckhand %s`: its flags are the keys here, and DECKHAND_NAME in the environment and flags override them.\n"+
		"Lines that begin with # are defaults, and change nothing.", r.use)
}

func runRole[C any](ctx context.Context, e *env.Env, r role[C], flags *pflag.FlagSet, path string) error {
	memtrim.Room()
	var logs logging.Config
	var cfg C
	for _, dst := range []any{&logs, &cfg} {
		if err := config.Load(flags, path, dst); err != nil {
			return env.Failed(env.ExitConfig, fault.New(fault.Invalid, "%s", err))
		}
	}
	redactor := &redact.Redactor{}
	var people *words
	out := e.Err
	if r.words && logs.Format == "" {
		logs.Format = "json"
		if output.IsTerminal(e.Err) {
			people = &words{terminal: e.Err, log: &sink{}}
			out = people.log
		}
	}
	log, err := logging.New(r.use, logs, out, redactor)
	if err != nil {
		return env.Failed(env.ExitConfig, fault.New(fault.Invalid, "%s", err))
	}
	// What libraries write by themselves, such as Google's SDK, is masked too.
	stdlog.SetFlags(0)
	stdlog.SetOutput(log.Named("library").StandardWriter(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}))
	tracer, err := tracing.New(ctx, "deckhand-"+r.use, log.Named("tracing"))
	if err != nil {
		return masked(redactor, err)
	}
	if tracer != nil {
		// It outlives the role, whose last spans it sends.
		if err := tracer.Start(context.WithoutCancel(ctx)); err != nil {
			return masked(redactor, err)
		}
		defer tracer.Stop()
	}
	systemd := newSupervisor(log.Named("systemd"))
	service, err := r.complete(ctx, cfg, equipment{log, redactor, tracer, people})
	if err != nil {
		return configuration(masked(redactor, err))
	}
	if err := service.Start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return configuration(masked(redactor, fmt.Errorf("%s did not start: %w", r.use, err)))
	}
	systemd.ready(service)
	select {
	case <-ctx.Done():
		log.Info("stopping; a second signal ends the process at once")
		if people != nil {
			e.Notef("\nStopping. Ctrl-C again ends at once.")
		}
	case <-service.Done():
	}
	within := time.Duration(0)
	if r.stopping != nil {
		within = r.stopping(cfg)
	}
	systemd.stopping(within)
	service.Stop()
	if err := service.Err(); err != nil {
		ended := masked(redactor, fmt.Errorf("%s ended: %w", r.use, err))
		if ended.Kind == fault.Invalid {
			// Not of its configuration, with which it has run: a restart may help.
			return env.Failed(env.ExitFailed, ended)
		}
		return ended
	}
	return nil
}

// configuration gives an invalid configuration the exit code with which systemd does not
// restart a service: the same start would fail again.
func configuration(err *fault.Error) error {
	if err.Kind == fault.Invalid {
		return env.Failed(env.ExitConfig, err)
	}
	return err
}

// masked keeps secrets out of an error that is about to be shown. What has a
// kind keeps it.
func masked(r *redact.Redactor, err error) *fault.Error {
	if e := fault.As(err); e != nil {
		with := *e
		with.Message, with.Fix = r.String(e.Message), r.String(e.Fix)
		return &with
	}
	return fault.New(fault.Internal, "%s", r.String(err.Error())).WithCause(err)
}
