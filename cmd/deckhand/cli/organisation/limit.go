package organisation

import (
	"math"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/internal/bytesize"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// limitOptions are the flags of organisation limit.
type limitOptions struct {
	cpus      float64
	memory    string
	workspace string
	pids      int64
	window    time.Duration
	ttl       time.Duration
}

func limitCommand(e *env.Env) *cobra.Command {
	var o limitOptions
	cmd := &cobra.Command{
		Use: "limit NAME", Short: "Set the limits of an organisation's jails, and how long its tasks can be undone and resumed",
		Long: `Each flag changes one limit, and those that are not given stay. 0 ends a limit: then
the nodes' own ceilings hold alone, and the hub's --undo-window. Checkpoints that
nobody named or kept are kept for 24h unless --checkpoint-ttl says otherwise. A version of an
agent that asks for more is refused, and so is the start of a task whose agent
asked for it before.`,
		Example: "deckhand organisation limit research --cpus 4 --memory 8GiB --pids 1024 --workspace 50GiB\ndeckhand organisation limit research --undo-window 72h --checkpoint-ttl 72h",
		Args:    env.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			limits := &deckhandv1.OrganisationLimits{}
			changed := cmd.Flags().Changed
			if changed("cpus") {
				limits.JailCpuMillis = proto.Int64(int64(math.Round(o.cpus * 1000))) //nolint:mnd // thousandths
			}
			if changed("pids") {
				limits.JailPids = &o.pids
			}
			if changed("undo-window") {
				limits.UndoWindow = durationpb.New(o.window)
			}
			if changed("checkpoint-ttl") {
				if o.ttl != 0 && (o.ttl < 24*time.Hour || o.ttl > 168*time.Hour) {
					return env.Usage(cmd, "--checkpoint-ttl is %s, give 24h to 168h, or 0 for the default of 24h", o.ttl)
				}
				limits.CheckpointTtl = durationpb.New(o.ttl)
			}
			for flag, to := range map[string]struct {
				text string
				set  **int64
			}{"memory": {o.memory, &limits.JailMemoryBytes}, "workspace": {o.workspace, &limits.JailWorkspaceBytes}} {
				if !changed(flag) {
					continue
				}
				bytes, ok := bytesize.Parse(to.text)
				if !ok && to.text != "0" || bytes < 0 {
					return env.Usage(cmd, "--%s is %q, give a size with its unit, such as 512MiB or 4GiB, or 0 for no limit", flag, to.text)
				}
				*to.set = &bytes
			}
			if proto.Equal(limits, &deckhandv1.OrganisationLimits{}) {
				return env.Usage(cmd, "nothing is given that is to change")
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, noun(e), client.Organisations.SetOrganisationLimits, &deckhandv1.SetOrganisationLimitsRequest{Name: args[0], Limits: limits}, (*deckhandv1.SetOrganisationLimitsResponse).GetOrganisation)
		},
	}
	flags := cmd.Flags()
	flags.Float64Var(&o.cpus, "cpus", 0, "processors of a jail, for example 1.5")
	flags.StringVar(&o.memory, "memory", "", "memory of a jail, for example 8GiB")
	flags.Int64Var(&o.pids, "pids", 0, "processes and threads of a jail")
	flags.StringVar(&o.workspace, "workspace", "", "size of a workspace, for example 50GiB")
	flags.DurationVar(&o.window, "undo-window", 0, "how long after its end what a task changed can be undone")
	flags.DurationVar(&o.ttl, "checkpoint-ttl", 0, "how long checkpoints are kept, from 24h to 168h; 0 for 24h")
	return cmd
}
