package task

import (
	"context"
	"fmt"
	"strings"

	"connectrpc.com/connect"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// NoteEstimate says to people what a run is likely to take and what is left to
// spend. A hub that cannot say does not keep from it.
func NoteEstimate(ctx context.Context, e *env.Env, client *sdk.Client, request *deckhandv1.GetEstimateRequest) {
	if !e.Format.ForPeople() {
		return
	}
	res, err := client.History.GetEstimate(ctx, connect.NewRequest(request))
	if err != nil {
		return
	}
	x := res.Msg.GetEstimate()
	text := "likely to take: " + x.GetBasis()
	if x.GetRuns() > 0 {
		text = fmt.Sprintf("likely to take %s and %s, at most %s and %s in nine of ten: %s", lasted(x.GetDurationP50()), output.USD(x.GetCostMicrosP50()),
			lasted(x.GetDurationP90()), output.USD(x.GetCostMicrosP90()), x.GetBasis())
	}
	var left []string
	for _, b := range res.Msg.GetBudgets() {
		of := b.GetScope()
		if b.GetEvery() != "" {
			of = "the " + b.GetEvery() + "'s of the " + of
		}
		left = append(left, fmt.Sprintf("%s of %s", output.USD(max(0, b.GetLimitMicros()-b.GetSpentMicros()-b.GetReservedMicros())), of))
	}
	if res.Msg.RunsLeft != nil {
		left = append(left, fmt.Sprintf("%d runs of the month's plan", res.Msg.GetRunsLeft()))
	}
	if len(left) > 0 {
		text += "; left: " + strings.Join(left, ", ")
	}
	e.Notef("%s", output.Dim.Render(text))
}
