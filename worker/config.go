package worker

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/drain"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/metricsserver"
	"github.com/deckhand-sh/deckhand/internal/pressure"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/tracing"
	"github.com/deckhand-sh/deckhand/internal/version"
	"github.com/deckhand-sh/deckhand/sdk"
)

// Config says which hub a worker works for and how much it takes on.
type Config struct {
	// HubURL is the hub's API, for example "https://hub.example:7443".
	HubURL string `koanf:"hub-url"`
	// Token is a worker token of that hub.
	Token config.Secret `koanf:"token"`
	// Name is shown to people; empty for host name and process id.
	Name string `koanf:"name"`
	// Slots is how many tasks run at once: 1 to 10 000, 0 for 8.
	Slots int `koanf:"slots"`
	// Pool is the pool of workers that this one belongs to; empty for
	// "default".
	Pool string `koanf:"pool"`
	// ModelStall is how long a model may be silent in the middle of a call before
	// that counts as failed; 0 for 90 s.
	ModelStall time.Duration `koanf:"model-stall"`
	// ModelRest is how long a failing model is skipped before one call tests it
	// again; 0 means 30 s.
	ModelRest time.Duration `koanf:"-"`
	// Pressure is from when on the worker takes no new task. The disk is that of
	// the root folder: a worker has no folder of its own.
	Pressure pressure.Limits `koanf:",squash"`

	// Measure reads the machine's figures; nil for the real ones.
	Measure func(ctx context.Context) (pressure.Figures, error) `koanf:"-"`
	// DrainTimeout is how long tasks may go on once the worker is told to stop, before they
	// are handed back; 0 for not at all, at most 1 h.
	DrainTimeout time.Duration `koanf:"drain-timeout"`
	// MetricsListen is where metrics are served; empty for nowhere.
	MetricsListen string `koanf:"metrics-listen"`
	// Registry takes the metrics; nil for one of the worker's own.
	Registry *prometheus.Registry `koanf:"-"`

	// Tracer makes spans; nil for none.
	Tracer *tracing.Tracer `koanf:"-"`
	// Log is where the worker logs; nil for nowhere.
	Log hclog.Logger `koanf:"-"`
	// Redactor learns the secrets that the worker is given; nil for none.
	Redactor *redact.Redactor `koanf:"-"`
	// NATSOptions are added when the worker connects to the bus. With
	// nats.InProcessServer, for a worker in the hub's own process, nothing is
	// dialled and the hub need not name a URL.
	NATSOptions []nats.Option `koanf:"-"`
	// HTTPClient reaches the hub; nil for the SDK's own.
	HTTPClient *http.Client `koanf:"-"`
}

var poolName = regexp.MustCompile(`^[a-z0-9-]{0,32}$`)

// Complete checks the configuration and makes the worker. Nothing is connected
// before it is started.
func (c Config) Complete(_ context.Context) (*Worker, error) {
	if c.Slots == 0 {
		c.Slots = 8
	}
	switch {
	case c.Slots < 1 || c.Slots > 10_000:
		return nil, fault.New(fault.Invalid, "slots is %d", c.Slots).WithFix("give --slots a number from 1 to 10000")
	case !poolName.MatchString(c.Pool):
		return nil, fault.New(fault.Invalid, "pool %q is not a pool's name", c.Pool).
			WithFix("use at most 32 lower-case letters, digits and dashes with --pool")
	case c.ModelStall < 0 || c.ModelStall > time.Hour:
		return nil, fault.New(fault.Invalid, "model-stall is %s", c.ModelStall).WithFix("give --model-stall a time up to 1h, such as 90s")
	case len(c.Name) > 200:
		return nil, fault.New(fault.Invalid, "name is longer than 200 bytes").WithFix("shorten --name")
	case c.Token == "":
		return nil, fault.New(fault.Invalid, "token is empty").
			WithFix("set DECKHAND_TOKEN to the worker token that the hub put into its data folder (worker-token)")
	}
	if err := drain.Check(c.DrainTimeout); err != nil {
		return nil, err
	}
	if c.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "worker"
		}
		c.Name = fmt.Sprintf("%s-%d", host, os.Getpid())
	}
	if c.Measure == nil {
		c.Measure = pressure.Machine("/")
	}
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}
	if c.Registry == nil {
		c.Registry = metricsserver.NewRegistry()
	}
	if c.Redactor == nil {
		c.Redactor = &redact.Redactor{}
	}
	c.Redactor.Add(c.Token.Reveal())
	interceptors, err := c.Tracer.Interceptors()
	if err != nil {
		return nil, err
	}
	client, err := sdk.New(sdk.Config{
		URL: c.HubURL, Token: c.Token.Reveal(), HTTPClient: c.HTTPClient, UserAgent: "deckhand-worker/" + version.Version,
		Interceptors: interceptors,
	})
	if err != nil {
		return nil, fault.New(fault.Invalid, "hub-url: %v", err).WithFix("give --hub-url, for example https://hub.example.com:7800")
	}
	return newWorker(c, client), nil
}
