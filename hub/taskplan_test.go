package hub_test

import (
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// People change the plan of a task in place. A change to an older revision is refused, and so
// is an update of the agent's that was made without knowing the change: it says what was
// changed, and the next one is taken.
func TestPeopleChangeThePlanOfATask(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.apply("planner", `---
name: planner
description: x
provider: script
script: s.yaml
limits: {iterations: 5}
tools: [update_plan]
---
Go.
`)
	lease := r.begin(r.submit("planner").GetId(), 1)
	task := lease.GetTaskId()
	get := func() *deckhandv1.TaskPlan {
		return do(t, r.user.TaskPlans.GetTaskPlan, &deckhandv1.GetTaskPlanRequest{TaskId: task}).GetPlan()
	}
	require.Zero(t, get().GetRevision())
	turn := int32(0)
	update := func(arguments string) *deckhandv1.Step {
		turn++
		r.turn(lease, turn)
		step, err := r.propose(lease, turn, 0, "update_plan", arguments)
		require.NoError(t, err)
		done, err := r.execute(lease, step.GetId())
		require.NoError(t, err)
		return done
	}
	done := update(`{"items":[{"id":"1","title":"Look","status":"done"},{"id":"2","title":"Mend","status":"in_progress","depends_on":["1"]},
		{"id":"2.1","title":"Write","status":"pending","parent":"2"},{"id":"3","title":"Test","status":"pending","depends_on":["2"]}],"risks":["none"]}`)
	require.Equal(t, stepSucceeded, done.GetState(), done.GetObservation())
	p := get()
	require.EqualValues(t, 1, p.GetRevision())
	require.Equal(t, []string{"none"}, p.GetRisks())
	require.Len(t, p.GetItems(), 3)
	require.Equal(t, "2.1", p.GetItems()[1].GetChildren()[0].GetId())

	edit := func(req *deckhandv1.EditTaskPlanRequest) *deckhandv1.TaskPlan {
		req.TaskId, req.Revision = task, get().GetRevision()
		return do(t, r.user.TaskPlans.EditTaskPlan, req).GetPlan()
	}
	ids := func(p *deckhandv1.TaskPlan) (out []string) {
		for _, i := range p.GetItems() {
			out = append(out, i.GetId())
		}
		return out
	}
	add := &deckhandv1.EditTaskPlanRequest_Add{Add: &deckhandv1.AddPlanItem{Item: &deckhandv1.PlanItem{Title: "Back up"}, Before: "2"}}
	require.Equal(t, []string{"1", "p1", "2", "3"}, ids(edit(&deckhandv1.EditTaskPlanRequest{Change: add})))
	refuses(t, connect.CodeAborted, r.user.TaskPlans.EditTaskPlan, &deckhandv1.EditTaskPlanRequest{TaskId: task, Revision: 1, Change: add})
	mark := &deckhandv1.EditTaskPlanRequest_Mark{Mark: &deckhandv1.MarkPlanItem{Id: "1", Status: "pending"}}
	require.Equal(t, "pending", edit(&deckhandv1.EditTaskPlanRequest{Change: mark}).GetItems()[0].GetStatus())
	move := &deckhandv1.EditTaskPlanRequest_Move{Move: &deckhandv1.MovePlanItem{Id: "2", Before: "1"}}
	moved := edit(&deckhandv1.EditTaskPlanRequest{Change: move})
	require.Equal(t, []string{"2", "1", "p1", "3"}, ids(moved))
	require.Len(t, moved.GetItems()[0].GetChildren(), 1, "with its parts")
	for _, wrong := range []*deckhandv1.MovePlanItem{{Id: "2", Parent: "2.1"}, {Id: "2", Before: "2.1"}} {
		refuses(t, connect.CodeInvalidArgument, r.user.TaskPlans.EditTaskPlan, &deckhandv1.EditTaskPlanRequest{
			TaskId: task, Revision: 4, Change: &deckhandv1.EditTaskPlanRequest_Move{Move: wrong},
		})
	}
	remove := &deckhandv1.EditTaskPlanRequest_Remove{Remove: &deckhandv1.RemovePlanItem{Id: "2"}}
	removed := edit(&deckhandv1.EditTaskPlanRequest{Change: remove})
	require.Equal(t, []string{"1", "p1", "3"}, ids(removed))
	require.Empty(t, removed.GetItems()[2].GetDependsOn())
	require.Contains(t, removed.GetChanges(), `admin removed 2 ("Mend") with its 1 parts`)

	// The agent made this call before it was told.
	refused := update(`{"items":[{"id":"1","title":"Look","status":"done"},{"id":"2","title":"Mend","status":"done"}]}`)
	require.Equal(t, stepFailed, refused.GetState())
	for _, part := range []string{`added "Back up" as p1`, `removed 2 ("Mend")`, "in revision 5", "- [pending] p1: Back up"} {
		require.Contains(t, refused.GetObservation(), part)
	}
	require.Equal(t, []string{"1", "p1", "3"}, ids(get()), "nobody's change is lost")
	done = update(`{"items":[{"id":"1","title":"Look","status":"done"},{"id":"p1","title":"Back up","status":"done"}]}`)
	require.Equal(t, stepSucceeded, done.GetState(), done.GetObservation())
	require.EqualValues(t, 6, get().GetRevision())
	require.Empty(t, get().GetChanges())

	tree := []*deckhandv1.PlanItem{{Title: "Stop", Children: []*deckhandv1.PlanItem{{Title: "Drain"}, {Id: "x", Title: "Kill", DependsOn: []string{"p2"}}}}}
	replaced := edit(&deckhandv1.EditTaskPlanRequest{Change: &deckhandv1.EditTaskPlanRequest_Replace{Replace: &deckhandv1.ReplacePlan{Items: tree}}})
	require.Equal(t, []string{"p1"}, ids(replaced))
	require.Len(t, replaced.GetItems()[0].GetChildren(), 2)
	tree[0].Children[1].DependsOn = []string{"nothing"}
	refuses(t, connect.CodeInvalidArgument, r.user.TaskPlans.EditTaskPlan, &deckhandv1.EditTaskPlanRequest{
		TaskId: task, Revision: 7, Change: &deckhandv1.EditTaskPlanRequest_Replace{Replace: &deckhandv1.ReplacePlan{Items: tree}},
	})
	told := 0
	for _, e := range r.events(task, false) {
		if e.GetType() == "message_received" {
			require.Contains(t, e.GetPayload().GetFields()["text"].GetStringValue(), "Your plan was changed: admin ")
			told++
		}
	}
	require.Equal(t, 5, told, "each change is a message to the agent")
}
