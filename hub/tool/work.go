package tool

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/internal/toolname"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const workTimeout = 10 * time.Second

// workTools touch only the conversation: the loop acts on their arguments, and
// the hub records that they were called.
func workTools() []*Tool {
	const (
		safe   = deckhandv1.ToolCategory_TOOL_CATEGORY_SAFE
		worker = deckhandv1.ToolPlace_TOOL_PLACE_WORKER
	)
	return []*Tool{
		{
			Name: toolname.UpdatePlan,
			Description: "Set your plan: its items as a tree with dependencies, each with a status. Send the whole plan each time; " +
				"people follow your progress by it.",
			Category: safe, Place: worker, Idempotent: true, Reversible: true, Timeout: workTimeout,
			schema: `{"type":"object","additionalProperties":false,"required":["items"],"properties":{
				"items":{"type":"array","minItems":1,"maxItems":100,"items":{
					"type":"object","additionalProperties":false,"required":["id","title","status"],"properties":{
						"id":{"type":"string","minLength":1,"maxLength":64},
						"title":{"type":"string","minLength":1,"maxLength":500},
						"status":{"enum":["pending","in_progress","done","skipped"]},
						"parent":{"type":"string","maxLength":64,"description":"The id of the item that this one is part of"},
						"depends_on":{"type":"array","maxItems":50,"items":{"type":"string","maxLength":64},"description":"Ids of items that must be done first"}}}},
				"next":{"type":"object","additionalProperties":false,"required":["action"],"description":"What you do next, and why that","properties":{
					"action":{"type":"string","minLength":1,"maxLength":500},
					"confidence":{"type":"number","minimum":0,"maximum":1,"description":"How sure you are that it is right"},
					"alternative":{"type":"string","maxLength":500,"description":"What else you considered"}}},
				"estimate":{"type":"object","additionalProperties":false,"description":"What is left to do, as far as you can tell","properties":{
					"iterations":{"type":"integer","minimum":0,"maximum":1000},
					"minutes":{"type":"number","minimum":0,"maximum":10080}}},
				"success_criteria":{"type":"array","maxItems":20,"items":{"type":"string","maxLength":1000}},
				"risks":{"type":"array","maxItems":20,"items":{"type":"string","maxLength":1000}}}}`,
			run: func(_ context.Context, c Call) (Result, error) {
				items, _ := c.Arguments["items"].([]any)
				return Result{
					Observation: fmt.Sprintf("plan of %d items recorded", len(items)),
					Outcome:     map[string]any{"items": len(items)},
				}, nil
			},
		},
		{
			Name:        toolname.CompleteTask,
			Description: "End the run: the goal is reached, or cannot be. Say what was done, which files changed, and what is left over.",
			Category:    safe, Place: worker, Idempotent: true, Reversible: true, Ends: true, Timeout: workTimeout,
			schema: `{"type":"object","additionalProperties":false,"required":["summary"],"properties":{
				"summary":{"type":"string","minLength":1,"maxLength":20000,"description":"What was done and found, for a person"},
				"files_changed":{"type":"array","maxItems":1000,"items":{"type":"string","maxLength":4096}},
				"next_run_in_seconds":{"type":"integer","minimum":0,"maximum":2592000,"description":"When a loop woke you: how long it is until your next run"},
				"left_over":{"type":"array","maxItems":100,"items":{"type":"string","maxLength":2000}}}}`,
			run: func(context.Context, Call) (Result, error) { return Result{Observation: "recorded"}, nil },
		},
	}
}
