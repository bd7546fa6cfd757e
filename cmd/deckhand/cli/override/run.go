package override

import (
	"math"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/internal/persona"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Run is the flags of what one run has instead of what its persona
// says.
type Run struct {
	mode, provider, model string
	budget                float64
	limits                map[string]string
}

// Register adds the flags.
func (o *Run) Register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.mode, "mode", "", "the mode of this run: "+strings.Join(persona.Modes(), ", ")+"; a less careful one than the persona's is for admins")
	cmd.Flags().StringVar(&o.provider, "provider", "", "use this provider's model for this run; --model goes with it")
	cmd.Flags().StringVar(&o.model, "model", "", "use this model for this run; --provider goes with it")
	cmd.Flags().Float64Var(&o.budget, "budget", 0, "what this run may cost, in US dollars; more than the persona's is for admins")
	cmd.Flags().Lookup("budget").DefValue = "" // the persona's
	cmd.Flags().StringToStringVar(&o.limits, "limit", nil, "raise a limit of this run, for example iterations=100 or active_time=2h; more than the persona's is for admins")
}

// Message returns the override for a request; nil where no flag is given.
func (o *Run) Message(cmd *cobra.Command) (*deckhandv1.TaskOverride, error) {
	if (o.provider == "") != (o.model == "") {
		return nil, env.Usage(cmd, "--provider and --model go together")
	}
	out := &deckhandv1.TaskOverride{Mode: o.mode, Provider: o.provider, Model: o.model}
	var err error
	if out.Limits, err = Limits(cmd, o.limits); err != nil {
		return nil, err
	}
	if cmd.Flags().Changed("budget") {
		switch {
		case o.budget <= 0 || o.budget > 1_000_000:
			return nil, env.Usage(cmd, "--budget is %g, give dollars above 0, at most 1000000", o.budget)
		case out.GetLimits().GetCostMicros() > 0:
			return nil, env.Usage(cmd, "--budget and --limit cost_usd are the same, give one of them")
		case out.GetLimits() == nil:
			out.Limits = &deckhandv1.TaskLimits{}
		}
		out.Limits.CostMicros = int64(math.Round(o.budget * 1e6))
	}
	if proto.Equal(out, &deckhandv1.TaskOverride{}) {
		return nil, nil
	}
	return out, nil
}
