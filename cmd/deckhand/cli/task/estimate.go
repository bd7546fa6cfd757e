package task

import (
	"context"
	"fmt"
	"strings"

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
	res, err := client.History.GetEstimate(ctx, request)
	if err != nil {
		return
	}
	if text := likely(res); text != "" {
		e.Notef("%s", output.Dim.Render(text))
	}
}

// likely says what a run usually takes, and what may still be spent; "" for a run
// without history that nothing limits.
func likely(res *deckhandv1.GetEstimateResponse) string {
	var parts []string
	if x := res.GetEstimate(); x.GetRuns() > 0 {
		parts = append(parts, fmt.Sprintf("Usually %s, %s; nine of ten runs take at most %s, %s.", lasted(x.GetDurationP50()), output.USD(x.GetCostMicrosP50()),
			lasted(x.GetDurationP90()), output.USD(x.GetCostMicrosP90())))
	}
	var left []string
	for _, b := range res.GetBudgets() {
		amount := output.USD(max(0, b.GetLimitMicros()-b.GetSpentMicros()-b.GetReservedMicros()))
		switch {
		case b.GetEvery() == "" && b.GetSpentMicros() == 0:
			continue // of the run itself: all of it
		case b.GetEvery() == "":
			left = append(left, amount+" of this "+b.GetScope())
		case b.GetEvery() == "day":
			left = append(left, amount+" today"+whose(b))
		default:
			left = append(left, amount+" this "+b.GetEvery()+whose(b))
		}
	}
	if res.RunsLeft != nil {
		left = append(left, fmt.Sprintf("%d runs this period", res.GetRunsLeft()))
	}
	for _, q := range res.GetQuotas() {
		whose := ""
		if q.GetScope() == "user" {
			whose = " of yours"
		}
		left = append(left, fmt.Sprintf("%d of %d %s%s this period", max(0, q.GetLimit()-q.GetUsed()-q.GetReserved()), q.GetLimit(), strings.ReplaceAll(q.GetMetric(), "_", " "), whose))
	}
	if len(left) > 0 && len(parts) > 0 || exhausted(res) || len(res.GetQuotas()) > 0 {
		parts = append(parts, "Left: "+strings.Join(left, ", ")+".")
	}
	if res.GetUpgradeUrl() != "" && nearQuota(res) {
		parts = append(parts, "Larger plans: "+res.GetUpgradeUrl())
	}
	return strings.Join(parts, " ")
}

// whose says whose budget it is, where it is not the organisation's.
func whose(b *deckhandv1.Budget) string {
	if b.GetScope() == "organisation" {
		return ""
	}
	return " for this " + b.GetScope()
}

// nearlyAll is from which share on a budget counts as nearly spent, in percent.
const nearlyAll = 90

// exhausted reports whether a budget is nearly spent, which is worth a word before a
// first run too.
func exhausted(res *deckhandv1.GetEstimateResponse) bool {
	for _, b := range res.GetBudgets() {
		if (b.GetSpentMicros()+b.GetReservedMicros())*100 >= b.GetLimitMicros()*nearlyAll {
			return true
		}
	}
	return res.RunsLeft != nil && res.GetRunsLeft() == 0
}

// nearQuota reports whether a quota is nearly used up.
func nearQuota(res *deckhandv1.GetEstimateResponse) bool {
	for _, q := range res.GetQuotas() {
		if (q.GetUsed()+q.GetReserved())*100 >= q.GetLimit()*nearlyAll {
			return true
		}
	}
	return res.RunsLeft != nil && res.GetRunsLeft() == 0
}
