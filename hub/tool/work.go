package tool

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/internal/toolargs"
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
			Description: "Set your plan: a list of items, each with a status and, if needed, a parent and dependencies. Send the complete plan each time. " +
				"Use it for work with several parts, and update it as soon as an item is done: people follow your progress by it. " +
				`Example: {"items": [{"id": "1", "title": "Reproduce the bug", "status": "done"}, {"id": "2", "title": "Fix it", "status": "in_progress", "depends_on": ["1"]}]}.`,
			Kind:     KindWork,
			Category: safe, Place: worker, Idempotent: true, Reversible: true, Timeout: workTimeout,
			schema: `{"type":"object","additionalProperties":false,"required":["items"],"properties":{
				"items":{"type":"array","minItems":1,"maxItems":100,"items":{
					"type":"object","additionalProperties":false,"required":["id","title","status"],"properties":{
						"id":{"type":"string","minLength":1,"maxLength":64},
						"title":{"type":"string","minLength":1,"maxLength":500},
						"status":{"enum":["pending","in_progress","done","skipped"]},
						"parent":{"type":"string","maxLength":64,"description":"Id of the item that this one is part of"},
						"depends_on":{"type":"array","maxItems":50,"items":{"type":"string","maxLength":64},"description":"Ids of the items that must be done first"}}}},
				"next":{"type":"object","additionalProperties":false,"required":["action"],"description":"What you do next","properties":{
					"action":{"type":"string","minLength":1,"maxLength":500},
					"confidence":{"type":"number","minimum":0,"maximum":1,"description":"How sure you are that this is right"},
					"alternative":{"type":"string","maxLength":500,"description":"What you considered instead"}}},
				"estimate":{"type":"object","additionalProperties":false,"description":"Your estimate of what is left","properties":{
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
			Name: toolname.CompleteTask,
			Description: "End the run. Use it once, as the last thing you do, when the goal is reached or you are sure that you cannot go on. " +
				"Do not use it to report progress. Say truthfully how far you got: people and other agents act on the status. " +
				`Example: {"status": "partial", "summary": "Fixed 3 of 4 failing tests; TestUpload still fails.", "files_changed": ["upload.go"], "left_over": ["TestUpload needs a server that this jail cannot reach"], "sources": [{"kind": "url", "reference": "https://pkg.go.dev/net/http", "title": "Package http"}, {"kind": "step", "reference": "12"}]}.`,
			Kind:     KindWork,
			Category: safe, Place: worker, Idempotent: true, Reversible: true, Ends: true, Timeout: workTimeout, asksWhen: blocked,
			schema: `{"type":"object","additionalProperties":false,"required":["summary"],"properties":{
				"status":{"enum":["` + toolargs.StatusDone + `","` + toolargs.StatusPartial + `","` + toolargs.StatusBlocked + `","` + toolargs.StatusFailed + `"],"description":"done (default): the goal is reached and checked. partial: a useful part of it is. blocked: you can go on once a person has answered or done something; you then get their answer and continue. failed: it cannot be reached"},
				"summary":{"type":"string","minLength":1,"maxLength":20000,"description":"What was done and found, for a person"},
				"question":{"type":"string","minLength":1,"maxLength":4000,"description":"With blocked: what a person is to answer or do"},
				"files_changed":{"type":"array","maxItems":1000,"items":{"type":"string","maxLength":4096}},
				"next_run_in_seconds":{"type":"integer","minimum":0,"maximum":2592000,"description":"If a loop started this run: the time until the next run"},
				"sources":{"type":"array","maxItems":50,"description":"What the result is based on, if it says something that a person may want to check","items":{
					"type":"object","additionalProperties":false,"required":["kind","reference"],"properties":{
						"kind":{"enum":["file","url","step","document"]},
						"reference":{"type":"string","minLength":1,"maxLength":2000,"pattern":"^[^\\r\\n]+$","description":"A path in the workspace, an address, the number of a step, or the name of a document"},
						"title":{"type":"string","maxLength":300,"pattern":"^[^\\r\\n]*$"}}}},
				"left_over":{"type":"array","maxItems":100,"items":{"type":"string","maxLength":2000}}}}`,
			preview: previewEnd,
			run:     runEnd,
		},
	}
}

// blocked reports whether a call of complete_task says that the run can go on once a person
// has answered.
func blocked(arguments map[string]any) bool {
	return text(arguments, "status") == toolargs.StatusBlocked
}

func previewEnd(arguments map[string]any) string {
	if blocked(arguments) {
		return previewAsk(arguments)
	}
	return text(arguments, "summary")
}

func runEnd(ctx context.Context, c Call) (Result, error) {
	if blocked(c.Arguments) {
		return runAsk(ctx, c)
	}
	return Result{Observation: "recorded"}, nil
}
