// Package quota manages the quotas of subscription plans: how many runs a month, how long
// each may work, which categories of tools, which models, and how many calls a minute, and
// what the organisation and its users may use in a billing period: runs, iterations, tokens
// and calls of tools. Service returns an organisation's Subscription and Usage. An
// organisation without a plan is on self-hosted, which limits nothing.
//
// A run is a task that starts, regardless of who submitted it. It is counted once, in the
// transaction that admits it, so that any number of hubs together never exceed the quota.
// A task that finds no run left waits in the queue: it starts in the next period, or after
// a change of plan. If the organisation blocks instead, its submission is refused, counting
// the tasks that wait.
//
// Iterations, tokens and calls of tools are reserved for a run when it is admitted, under the
// same lock: as much as its limits allow, or what is left. That is the run's limit then; at it,
// the task goes back to the queue and waits for more. When an attempt or a run ends, a trigger of the
// database replaces that much of the reservation with what was used, on the day of that end
// (quota_usage): a run that goes on in the next period reserves there what is left of its grant.
package quota

import (
	"time"

	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Unlimited is a number of runs without an end.
const Unlimited = -1

// Plan is what one gives.
type Plan struct {
	Name string
	// Runs a billing period, in UTC; Unlimited for no end.
	Runs int64
	// ActiveTime is the longest time that a run may work, without waiting; 0 for the
	// persona's limit.
	ActiveTime time.Duration
	// Tools is the highest category of tools that is allowed.
	Tools deckhandv1.ToolCategory
	// RollsOver reports that the runs left over from a month are added to the next one:
	// once, and at most as many as a month has.
	RollsOver bool
}

// The plans' names.
const (
	Free         = "free"
	Starter      = "starter"
	Professional = "professional"
	Enterprise   = "enterprise"
	SelfHosted   = "self-hosted"
)

// plans are all plans.
var plans = []Plan{
	{Name: Free, Runs: 50, ActiveTime: 5 * time.Minute, Tools: deckhandv1.ToolCategory_TOOL_CATEGORY_SAFE},
	{Name: Starter, Runs: 500, ActiveTime: 10 * time.Minute, Tools: deckhandv1.ToolCategory_TOOL_CATEGORY_MODERATE},
	{Name: Professional, Runs: 2_500, ActiveTime: 15 * time.Minute, Tools: deckhandv1.ToolCategory_TOOL_CATEGORY_DANGEROUS},
	{Name: Enterprise, Runs: Unlimited, ActiveTime: 30 * time.Minute, Tools: deckhandv1.ToolCategory_TOOL_CATEGORY_DANGEROUS, RollsOver: true},
	{Name: SelfHosted, Runs: Unlimited, Tools: deckhandv1.ToolCategory_TOOL_CATEGORY_DANGEROUS},
}

// Of returns a plan by its name.
func Of(name string) (Plan, bool) {
	for _, p := range plans {
		if p.Name == name {
			return p, true
		}
	}
	return Plan{}, false
}

// Time returns how long a run may work that its persona, or an override, gives
// so long.
func (p Plan) Time(wanted time.Duration) time.Duration {
	if p.ActiveTime > 0 && wanted > p.ActiveTime {
		return p.ActiveTime
	}
	return wanted
}

// Refuse refuses a tool that the plan does not have; nil for one that it has.
func (p Plan) Refuse(name string, category deckhandv1.ToolCategory) *fault.Error {
	if category <= p.Tools {
		return nil
	}
	return fault.New(fault.Denied, "%s is a %s tool, and the organisation's plan, %s, has none that are worse than %s",
		name, tool.CategoryName(category), p.Name, tool.CategoryName(p.Tools)).
		WithCode(fault.PermissionDenied).WithFix("do it with other tools, or have an administrator change the plan: deckhand quota set NAME")
}
