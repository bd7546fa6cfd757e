package override

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/internal/bytesize"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Retry is the flags of a task that is run once more.
type Retry struct {
	memory, node, provider, model string
	limits                        map[string]string
}

// Register adds the flags.
func (o *Retry) Register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.memory, "memory", "", "give its jail so much memory, for example 2GiB")
	cmd.Flags().StringVar(&o.node, "node", "", "run it on this node; the workspace stays where it is")
	cmd.Flags().StringVar(&o.provider, "provider", "", "use this provider's model; --model goes with it")
	cmd.Flags().StringVar(&o.model, "model", "", "use this model; --provider goes with it")
	LimitFlag(cmd, &o.limits)
}

// Message returns the override for a request.
func (o *Retry) Message(cmd *cobra.Command) (*deckhandv1.TaskOverride, error) {
	out := &deckhandv1.TaskOverride{NodeId: o.node, Provider: o.provider, Model: o.model}
	if o.memory != "" {
		bytes, ok := bytesize.Parse(o.memory)
		if !ok || bytes <= 0 {
			return nil, env.Usage(cmd, "--memory is %q, give a size with its unit, such as 512MiB or 4GiB", o.memory)
		}
		out.MemoryBytes = bytes
	}
	if (o.provider == "") != (o.model == "") {
		return nil, env.Usage(cmd, "--provider and --model go together")
	}
	var err error
	out.Limits, err = Limits(cmd, o.limits)
	return out, err
}
