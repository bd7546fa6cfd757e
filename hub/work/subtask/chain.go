package subtask

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// chain is a task and its ancestors: the task that handed its work over to it, and
// otherwise its parent.
type chain []db.TaskChainRow

// longest is how many tasks may come of each other.
const longest = 256

func (s *Service) chain(ctx context.Context, q *db.Queries, t db.Task) (chain, error) {
	rows, err := q.TaskChain(ctx, db.TaskChainParams{OrgID: t.OrgID, ID: t.ID, Most: longest})
	if err != nil {
		return nil, fmt.Errorf("read what task %s came of: %w", t.ID, err)
	}
	return rows, nil
}

// parents returns the task itself, its parent, that one's, and so on. Of a row
// of handoffs only the last counts.
func (c chain) parents() chain {
	var out chain
	from := "subtask"
	for _, row := range c {
		if from != "handoff" {
			out = append(out, row)
		}
		from = row.Link
	}
	return out
}

// circle refuses a subtask for an agent that waits for it further up, or that had it as
// often as allowed. A subtask for the agent itself is no circle: the depth limits it.
func (c chain) circle(own *persona.Persona, targetID string, work tool.SubtaskSpec) *fault.Error {
	if len(c) >= longest {
		return fault.New(fault.Precondition, "more than %d tasks came of each other", longest).WithCode(fault.CircularDelegation).
			WithFix("do it yourself")
	}
	if work.Agent == "" {
		return nil
	}
	refuse := func(why string) *fault.Error {
		names := []string{work.Agent}
		for _, row := range c {
			names = append(names, row.AgentName)
		}
		slices.Reverse(names)
		return fault.New(fault.Denied, "the work would go round in a circle: %s (%s)", strings.Join(names, " → "), why).
			WithCode(fault.CircularDelegation).WithFix("do it yourself, or end the task and say what is left")
	}
	// The handoffs down to here, then those who wait further up.
	taken, here := 0, true
	for _, row := range c {
		if row.AgentID == targetID {
			if !here || work.Manifest == nil {
				return refuse(work.Agent + " is in it already")
			}
			taken++
		}
		here = here && row.Link == "handoff"
	}
	rounds := max(1, own.Agents.Rounds)
	if work.Manifest != nil && taken >= rounds {
		return refuse(fmt.Sprintf("%s has had it %d times, and agents.rounds of %s is %d", work.Agent, taken, own.Name, rounds))
	}
	return nil
}

// walls are the trust levels, weakest walls last.
var walls = []persona.Trust{persona.Untrusted, persona.Verified, persona.Trusted}

// exceeds returns in which way a persona may do more than the one that gives it work; ""
// if it does not. Roles need not be compared: both run for the same user.
func exceeds(giver, taker *persona.Persona, tools *tool.Registry) string {
	if slices.Index(walls, taker.Trust) > slices.Index(walls, giver.Trust) {
		return fmt.Sprintf("its jail is for %s code, and this one's for %s", taker.Trust, giver.Trust)
	}
	if giver.Mode != persona.Autonomous && taker.Mode == persona.Autonomous {
		return fmt.Sprintf("it is %s, and this one %s", taker.Mode, giver.Mode)
	}
	if most, own := highest(taker, tools), highest(giver, tools); most > own {
		return fmt.Sprintf("it has %s tools, and this one none above %s", tool.CategoryName(most), tool.CategoryName(own))
	}
	for _, category := range giver.Approvals.Categories {
		if !slices.Contains(taker.Approvals.Categories, category) && taker.Mode == persona.Autonomous && has(taker, tools, category) {
			return fmt.Sprintf("its %s tools need no approval, and this one's do", category)
		}
	}
	for _, name := range giver.Approvals.Tools {
		record := tools.Get(name)
		if record == nil || !tool.Allowed(taker, name) || slices.Contains(taker.Approvals.Tools, name) ||
			slices.Contains(taker.Approvals.Categories, tool.CategoryName(record.Category)) {
			continue
		}
		return fmt.Sprintf("its %s needs no approval, and this one's does", name)
	}
	return ""
}

func highest(p *persona.Persona, tools *tool.Registry) deckhandv1.ToolCategory {
	most := deckhandv1.ToolCategory_TOOL_CATEGORY_SAFE
	for _, t := range tools.For(p) {
		most = max(most, t.GetCategory())
	}
	for _, server := range p.MCP {
		most = max(most, tool.CategoryOf(server.Category))
	}
	return most
}

func has(p *persona.Persona, tools *tool.Registry, category string) bool {
	for _, t := range tools.For(p) {
		if tool.CategoryName(t.GetCategory()) == category {
			return true
		}
	}
	for _, server := range p.MCP {
		if server.Category == category {
			return true
		}
	}
	return false
}
