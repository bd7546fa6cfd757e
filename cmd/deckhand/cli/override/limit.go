// Package override has the flags by which one run differs from its persona: model, mode, budget, memory and limits. Run is for a new task, Retry for
// a task that is run again.
package override

import (
	"math"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/internal/bytesize"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// LimitFlag adds --limit.
func LimitFlag(cmd *cobra.Command, more *map[string]string) {
	cmd.Flags().StringToStringVar(more, "limit", nil, "raise a limit of this run, for example iterations=100 or active_time=2h; for admins")
}

// Limits parses the values of --limit; nil without values.
func Limits(cmd *cobra.Command, more map[string]string) (*deckhandv1.TaskLimits, error) {
	if len(more) == 0 {
		return nil, nil
	}
	out := &deckhandv1.TaskLimits{}
	for kind, value := range more {
		whole, err := strconv.ParseInt(value, 10, 64)
		switch kind {
		case "iterations":
			if err == nil && (whole < 1 || whole > 1000) {
				err = strconv.ErrRange
			}
			out.Iterations = int32(whole) //nolint:gosec // checked
		case "tokens":
			out.Tokens = whole
		case "calls":
			out.Calls = whole
		case "active_time":
			var d time.Duration
			d, err = time.ParseDuration(value)
			out.ActiveTime, whole = durationpb.New(d), int64(d)
		case "cost_usd":
			var usd float64
			usd, err = strconv.ParseFloat(value, 64)
			out.CostMicros = int64(math.Round(usd * 1e6))
			whole = out.GetCostMicros()
		case "files":
			out.Files = whole
		case "file_size":
			var ok bool
			if whole, ok = bytesize.Parse(value); !ok {
				return nil, env.Usage(cmd, "--limit file_size=%s is no size: give one with its unit, such as 500MiB", value)
			}
			out.FileSizeBytes, err = whole, nil
		default:
			return nil, env.Usage(cmd, "--limit %s is not a limit: use iterations, active_time, tokens, calls, cost_usd, files or file_size", kind)
		}
		if err != nil || whole <= 0 {
			return nil, env.Usage(cmd, "--limit %s=%s is no limit: give a number above 0, for iterations at most 1000, and for active_time a time such as 2h", kind, value)
		}
	}
	return out, nil
}
