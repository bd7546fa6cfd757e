package role

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/up"
	"github.com/deckhand-sh/deckhand/hub"
	"github.com/deckhand-sh/deckhand/hub/work/workspace"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/metricsserver"
	"github.com/deckhand-sh/deckhand/internal/pressure"
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
`,
		example: `
sudo deckhand up
sudo deckhand run log-triage "What went wrong last night?" --input /var/log/dpkg.log --wait
`,
		flags: upFlags,
		words: true,
		complete: func(ctx context.Context, cfg up.Config, with equipment) (lifecycle.Service, error) {
			cfg.Log, cfg.Redact, cfg.Tracer = with.log, with.redactor, with.tracer
			cfg.AnthropicKey = orEnvironment(cfg.AnthropicKey, "ANTHROPIC_API_KEY")
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

func upFlags(flags *pflag.FlagSet) {
	flags.String("data-dir", defaultDataDir(), "folder of all data")
	flags.String("listen", hub.DefaultListen, "address of the API")
	httpsFlags(flags)
	flags.String("base-path", "", "path that browsers find the hub below, such as /deckhand; the root by default")
	flags.String("edge-listen", up.DefaultEdgeListen, "address where nodes dial their link")
	flags.String(metricsserver.Flag, "", metricsserver.Usage)
	flags.String("database-url", "", "use this PostgreSQL database instead of a private one")
	flags.String("nats-url", "", "use this NATS server instead of one in the process")
	flags.String("nats-ca", "", "PEM file of the authority that vouches for the server of a tls:// --nats-url; those of the system by default")
	flags.String("notify-allow", "", "networks, besides public ones, to which destinations may send: 10.20.0.0/16,192.0.2.7")
	flags.String("upgrade-url", "", "where a person can get a larger subscription plan, shown with quotas: https://example.com/plans")
	flags.Duration("undo-window", workspace.DefaultWindow, "how long after its end what a task changed can be undone; negative for ever")
	flags.String("provider-allow", "127.0.0.0/8,::1", "networks, besides public ones, in which model servers, search engines and login servers may be")
	flags.String("containerd", "", "use the containerd at this socket; the machine's own or a private one by default")
	daemon.GrantFlags(flags)
	daemon.ImageFlags(flags)
	flags.Int("slots", 8, "how many tasks run at once")
	pressure.Flags(flags)
	flags.Duration("lease-ttl", hub.DefaultLeaseTTL, "how long a worker's lease lasts without renewal")
	flags.String("anthropic-base-url", hub.DefaultAnthropic, "where the model relay reaches Anthropic")
	flags.String("anthropic-api-key", "", "key for Anthropic; better in ANTHROPIC_API_KEY, which other users cannot see")
}
