package role

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/up"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/node/daemon"
)

// UpCommand returns the command "deckhand up".
func UpCommand(e *env.Env) *cobra.Command {
	return roleCommand(e, role[up.Config]{
		use: "up", short: "Run everything on this machine: hub, worker and node",
		long: `
Runs hub, worker and node in one process, with a private PostgreSQL and, when
none is running, a private containerd, all below one data folder. Needs root,
PostgreSQL's binaries, containerd and runc. Other commands on this machine find
it by themselves. Ctrl-C stops everything in order; kill -9 loses nothing. A
PostgreSQL or containerd of its own that dies is started again.

With --install it becomes a service of systemd, which starts with the machine:
the flags that are given with it are kept in /etc/deckhand/up.yaml. --uninstall
removes the service; data and configuration stay.

Its configuration file has the keys of hub, worker and node together.
`,
		example: `
sudo deckhand up
sudo deckhand up --install
sudo deckhand run log-triage "What went wrong last night?" --input /var/log/dpkg.log --wait
`,
		flags: upFlags,
		// Worker, node and hub stop one after another.
		stopping: func(cfg up.Config) time.Duration {
			return cfg.Worker.DrainTimeout + cfg.Node.DrainTimeout + cfg.Hub.DrainDelay + cfg.Hub.DrainTimeout
		},
		words:   true,
		instead: service,
		complete: func(ctx context.Context, cfg up.Config, with equipment) (lifecycle.Service, error) {
			cfg.Log, cfg.Redact, cfg.Tracer = with.log, with.redactor, with.tracer
			cfg.Hub.AnthropicKey = orEnvironment(cfg.Hub.AnthropicKey, "ANTHROPIC_API_KEY")
			s := &announced{log: with.log}
			if with.words != nil {
				if err := s.greet(&cfg, with.words); err != nil {
					return nil, err
				}
			}
			var err error
			if s.Up, err = cfg.Complete(ctx); err != nil {
				return nil, err
			}
			return s, nil
		},
	})
}

// upFlags registers the flags of hub, node and worker: no setting of theirs is out of
// reach. A flag that several of them have is one.
func upFlags(flags *pflag.FlagSet) {
	for key, why := range up.Own() {
		config.Reserve(flags, key, why)
	}
	for _, of := range []func(*pflag.FlagSet){hubFlags, daemon.Flags, workerFlags} {
		role := pflag.NewFlagSet("role", pflag.ContinueOnError)
		role.SortFlags = false
		of(role)
		flags.AddFlagSet(role) // leaves out what is there already
	}
	// What is otherwise on one machine.
	for _, of := range []struct{ name, value, usage string }{
		{"data-dir", defaultDataDir(), "folder of all data"},
		{"name", "", "name of the node and of the worker; the host name by default"},
		{"edge-listen", up.DefaultEdgeListen, "address where nodes dial their link; this machine's own needs no other"},
		{"drain-delay", "0s", "how long to go on serving, no longer ready, once told to stop: for a balancer"},
		{"database-url", "", "use this PostgreSQL database instead of a private one; better in DECKHAND_DATABASE_URL, which other users cannot see"},
		{"nats-url", "", "use this NATS server instead of one in the process; better in DECKHAND_NATS_URL"},
		{"nats-listen", "", "let other workers reach the NATS server in the process on that address; with TLS unless it is loopback"},
		{"containerd", "", "use the containerd at this socket; the machine's own or a private one by default"},
		{"provider-allow", "127.0.0.0/8,::1", "networks, besides public ones, in which model servers, search engines and login servers may be"},
	} {
		f := flags.Lookup(of.name)
		f.Usage, f.DefValue = of.usage, of.value
		if err := f.Value.Set(of.value); err != nil {
			panic(err) // a built-in default is invalid
		}
	}
	serviceFlags(flags)
}
