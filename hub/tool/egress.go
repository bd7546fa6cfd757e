package tool

import (
	"fmt"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// How much of a command's egress is stored with its step, and sent to the model. The node
// has the rest for as long as it keeps the command's result.
const (
	keptHosts    = 20
	keptRefusals = 20
	toldRefusals = 10
)

// withEgress adds to a result what its command sent out of the jail, and to the model's
// text what was refused and why.
func withEgress(r Result, use *nodev1.EgressUse) Result {
	if use == nil {
		return r
	}
	if r.Outcome == nil {
		r.Outcome = map[string]any{}
	}
	r.Outcome["egress"] = egressOutcome(use)
	r.Refused = use.GetRefusals()
	if len(r.Refused) == 0 {
		return r
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s\nerror %s: connections out of the jail were refused:", r.Observation, fault.EgressDenied)
	for _, one := range r.Refused[:min(len(r.Refused), toldRefusals)] {
		fmt.Fprintf(&out, "\n- %s: %s", one.GetMethod(), one.GetReason())
		if one.GetCount() > 1 {
			fmt.Fprintf(&out, " (%d times)", one.GetCount())
		}
		if one.GetAllow() != "" {
			fmt.Fprintf(&out, "; the persona would have to say %s", one.GetAllow())
		}
	}
	if more := len(r.Refused) - toldRefusals; more > 0 {
		fmt.Fprintf(&out, "\n- and %d others", more)
	}
	r.Observation = out.String()
	return r
}

// egressOutcome is a command's egress for programs.
func egressOutcome(use *nodev1.EgressUse) map[string]any {
	out := map[string]any{}
	var hosts []any
	more := use.GetMore()
	for i, h := range use.GetHosts() {
		if i == keptHosts {
			more += int64(len(use.GetHosts()) - keptHosts)
			break
		}
		hosts = append(hosts, map[string]any{
			"host": h.GetHost(), "requests": h.GetRequests(), "sent_bytes": h.GetSentBytes(), "received_bytes": h.GetReceivedBytes(),
		})
	}
	if len(hosts) > 0 {
		out["hosts"] = hosts
	}
	if refused := RefusedOutcome(use.GetRefusals()); len(refused) > 0 {
		out["refused"] = refused
	}
	if more += int64(max(0, len(use.GetRefusals())-keptRefusals)); more > 0 {
		out["more"] = more
	}
	return out
}

// RefusedOutcome is what was refused to a command, for programs.
func RefusedOutcome(refusals []*nodev1.EgressUse_Refusal) (out []any) {
	for _, r := range refusals[:min(len(refusals), keptRefusals)] {
		out = append(out, map[string]any{
			"host": r.GetHost(), "method": r.GetMethod(), "reason": r.GetReason(), "allow": r.GetAllow(), "count": r.GetCount(),
		})
	}
	return out
}
