package role

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/internal/drain"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/metricsserver"
	"github.com/deckhand-sh/deckhand/internal/pressure"
	"github.com/deckhand-sh/deckhand/worker"
)

// WorkerCommand returns the command "deckhand worker".
func WorkerCommand(e *env.Env) *cobra.Command {
	return roleCommand(e, role[worker.Config]{
		use: "worker", short: "Run a worker, which thinks for the tasks of a hub",
		long: `
A worker claims tasks of one hub and runs their model loops. It holds nothing
that it cannot lose: run as many as you like, and stop any of them at any time.
`,
		example: `
DECKHAND_TOKEN=dhw_… deckhand worker --hub-url https://hub.example.com --slots 16
`,
		flags:    workerFlags,
		stopping: func(cfg worker.Config) time.Duration { return cfg.DrainTimeout },
		complete: func(ctx context.Context, cfg worker.Config, with equipment) (lifecycle.Service, error) {
			cfg.Log, cfg.Redactor, cfg.Tracer = with.log, with.redactor, with.tracer
			if cfg.MetricsListen == "" {
				return cfg.Complete(ctx)
			}
			cfg.Registry = metricsserver.NewRegistry()
			w, err := cfg.Complete(ctx)
			if err != nil {
				return nil, err
			}
			both := &lifecycle.Group{}
			both.Add("metrics", metricsserver.New(cfg.MetricsListen, cfg.Registry, w.Ready, with.log.Named("metrics")))
			both.Add("worker", w)
			return both, nil
		},
	})
}

func workerFlags(flags *pflag.FlagSet) {
	flags.String("hub-url", "", "the hub's URL")
	flags.String("token", "", "worker token of that hub; better in DECKHAND_TOKEN, which other users cannot see")
	flags.String("name", "", "what people see; host name and process id by default")
	flags.Int("slots", 8, "how many tasks run at once")
	flags.Duration("model-stall", 90*time.Second, "how long a model may be silent in the middle of a call")
	drain.Flags(flags)
	pressure.Flags(flags)
	flags.String(metricsserver.Flag, "", metricsserver.Usage)
	flags.String("pool", "", "pool of workers that it belongs to; \"default\" by default")
}
