package role

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/hub"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/identity/session"
	"github.com/deckhand-sh/deckhand/hub/record/notification"
	"github.com/deckhand-sh/deckhand/hub/work/workspace"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/datadir"
	"github.com/deckhand-sh/deckhand/internal/drain"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/metricsserver"
)

// HubCommand returns the command "deckhand hub".
func HubCommand(e *env.Env) *cobra.Command {
	return roleCommand(e, role[hub.Config]{
		use: "hub", short: "Run a hub, the control plane",
		long: `
A hub stores the truth in PostgreSQL, decides every step, and reaches the nodes.
Run as many as you like on one database, with one keyset file, behind a
balancer. On its first start it makes the administrator's token and a worker
token and puts them into the data folder.
`,
		example: `
DECKHAND_DATABASE_URL=postgres://deckhand:…@db.example.com/deckhand \
DECKHAND_NATS_URL=tls://hub:…@nats.example.com:4222 \
deckhand hub --listen 0.0.0.0:7800 --tls-cert hub.pem --tls-key hub.key --edge-address hub.example.com:7801
`,
		flags: hubFlags, serviceDir: datadir.SystemHub,
		stopping: func(cfg hub.Config) time.Duration { return cfg.DrainDelay + cfg.DrainTimeout },
		complete: func(ctx context.Context, cfg hub.Config, with equipment) (lifecycle.Service, error) {
			cfg.Log, cfg.Redact, cfg.Tracer = with.log, with.redactor, with.tracer
			cfg.AnthropicKey = orEnvironment(cfg.AnthropicKey, "ANTHROPIC_API_KEY")
			return cfg.Complete(ctx)
		},
	})
}

func hubFlags(flags *pflag.FlagSet) {
	flags.String("listen", hub.DefaultListen, "address of the API")
	httpsFlags(flags)
	flags.String("base-path", "", "path that browsers find the hub below, such as /deckhand; the root by default")
	flags.String("edge-listen", hub.DefaultEdgeListen, "address where nodes dial their link")
	flags.String("edge-address", "", "host:port that nodes are told to dial; that of --edge-listen by default")
	flags.String("peer-address", "", "host:port at which other hubs reach this one's edge; that of --edge-listen on this machine by default")
	flags.String("keyset-key", "", "the key that encrypts the vault's keys: file:///path, env://NAME, or a KMS's URI; keyset.json in --data-dir by default")
	flags.String("data-dir", hubDataDir(), "folder of the keyset and of the first tokens")
	flags.String("database-url", "", "PostgreSQL database, where several hosts may be named, with commas between them, of which the primary is used; better in DECKHAND_DATABASE_URL, which other users cannot see")
	flags.String("nats-url", "", "NATS server with JetStream, as the hub's user, or the members of a cluster with commas between them; better in DECKHAND_NATS_URL")
	flags.Int("nats-replicas", 0, "how many members of a NATS cluster keep the wake-ups; 3 if --nats-url names three or more, else as many as do, and 1 at first")
	flags.String("nats-events-url", "", "the same server, as the user of the events account; --nats-url by default")
	flags.String("nats-worker-url", "", "the same server, as the workers' user")
	flags.String("nats-ca", "", "PEM file of the authority that vouches for the servers of tls:// NATS URLs; those of the system by default")
	flags.String("nats-listen", "", "run a NATS server inside this hub on that address, instead of --nats-url; with TLS unless it is loopback")
	flags.String("nats-lifecycle-password", "", "let others listen to lifecycle events on --nats-listen, as the user lifecycle; better in DECKHAND_NATS_LIFECYCLE_PASSWORD")
	flags.String("node-programs", "", "folder of deckhand-node-linux-amd64 and -arm64, which new nodes download from this hub; the deckhand-node beside this program by default")
	flags.String("notify-allow", "", "networks, besides public ones, to which destinations may send: 10.20.0.0/16,192.0.2.7")
	flags.String("provider-allow", "", "networks, besides public ones, in which model servers, search engines and login servers may be: 10.20.0.0/16,127.0.0.1")
	flags.Duration("notify-give-up", notification.DefaultGiveUp, "for how long a notification that is not taken is sent again")
	flags.String(metricsserver.Flag, "", metricsserver.Usage)
	flags.Duration("lease-ttl", hub.DefaultLeaseTTL, "how long a worker's lease lasts without renewal")
	flags.Duration("event-retention", 0, "how long the events of a finished task are kept; 0 for ever")
	flags.Duration("session-idle", session.DefaultIdle, "for how long a login may go unused")
	flags.Duration("session-lifetime", session.DefaultLifetime, "how long a login lasts at most")
	flags.Int("api-rate", auth.DefaultRate, "how many calls a second one token may make in the long run, and one address twice as many; negative for any number")
	flags.String("oidc-issuer", "", "OpenID Connect provider at which people log in: https://login.example.com")
	flags.String("oidc-client-id", "", "what the hub is called there")
	flags.String("oidc-client-secret", "", "its secret there; better in DECKHAND_OIDC_CLIENT_SECRET, which other users cannot see")
	flags.String("oidc-roles", "", "roles of the provider's groups, * for everybody: ops=advanced,admins=admin,*=viewer")
	flags.String("oidc-groups-claim", "", "where the provider names groups; groups by default")
	flags.String("oidc-organisation", "", "whose users they are; default by default")
	flags.Duration("drain-delay", time.Second, "how long to go on serving, no longer ready, once told to stop")
	drain.Flags(flags)
	flags.Int("max-active", hub.DefaultMaxActive, "how many tasks of an organisation run at once")
	flags.Int("max-active-per-user", hub.DefaultMaxPerUser, "how many tasks of one user run at once")
	flags.Duration("undo-window", workspace.DefaultWindow, "how long after its end what a task changed can be undone; negative for ever")
	flags.String("upgrade-url", "", "where a person can get a larger subscription plan, shown with quotas: https://example.com/plans")
	flags.String("anthropic-base-url", hub.DefaultAnthropic, "where the model relay reaches Anthropic")
	flags.String("anthropic-api-key", "", "key for Anthropic; better in ANTHROPIC_API_KEY, which other users cannot see")
}

// httpsFlags are those of how browsers reach the API.
func httpsFlags(flags *pflag.FlagSet) {
	flags.String("public-url", "", "where browsers find the hub, for passkeys, notifications, logins by OIDC and links: https://hub.example.com")
	flags.String("tls-cert", "", "PEM certificate of the API, with those that it depends on; read again when the file changes")
	flags.String("tls-key", "", "PEM key of the API")
	flags.Bool("insecure-http", false, "speak plain HTTP on an address that is not loopback, behind a proxy that adds TLS")
	flags.Bool("mcp-decide", false, "let MCP clients decide items of the inbox, with tokens made by: deckhand token create --decide")
	flags.String("trusted-proxies", "", "networks of proxies before the hub, whose X-Forwarded-For is believed: 10.20.0.5,10.20.0.6")
}

// orEnvironment returns a secret, or the variable that everybody keeps it in.
func orEnvironment(secret config.Secret, name string) config.Secret {
	if secret != "" {
		return secret
	}
	return config.Secret(os.Getenv(name))
}
