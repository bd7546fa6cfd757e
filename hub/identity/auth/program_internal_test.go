package auth

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
	c "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1/deckhandv1connect"
)

// A program's stream ends when it may not call the hub any more, or is another task's. While the
// database does not respond, it goes on.
func TestAProgramsStreamEndsWithItsRights(t *testing.T) {
	t.Parallel()
	before := Identity{Kind: Program, OrgID: "org_1", TaskID: "task_1"}
	other, reads := before, before
	other.TaskID, reads.Scope.ReadOnly = "task_2", true
	for name, test := range map[string]struct {
		now  Identity
		err  error
		ends bool
	}{
		"unchanged":                   {now: before},
		"read-only now":               {now: reads},
		"another task's":              {now: other, ends: true},
		"denied":                      {err: fault.New(fault.Denied, "not any more"), ends: true},
		"the task has ended":          {err: fault.New(fault.Unauthenticated, "no task"), ends: true},
		"the database does not reply": {err: fault.New(fault.Unavailable, "not now")},
	} {
		ctx := ByProgram(t.Context(), func(context.Context) (Identity, error) { return test.now, test.err })
		rule, _ := RuleOf(c.EventServiceWatchProcedure)
		err := Guards{}.stands(ctx, before, c.EventServiceWatchProcedure, rule, httptest.NewRequest("POST", c.EventServiceWatchProcedure, nil))
		require.Equal(t, test.ends, err != nil, "%s: %v", name, err)
	}
}

// In review mode a program reads, and changes nothing.
func TestAProgramReadsInReviewMode(t *testing.T) {
	t.Parallel()
	for _, procedure := range ProgramMay() {
		rule, _ := RuleOf(procedure)
		require.NoError(t, Allow(Identity{Kind: Program}, procedure, rule))
		err := Allow(Identity{Kind: Program, Scope: Scope{ReadOnly: true}}, procedure, rule)
		changes := procedure == c.TaskServiceSubmitTaskProcedure || procedure == c.TaskServiceTellTaskProcedure
		require.Equal(t, changes, fault.Is(err, fault.Denied), procedure)
	}
}
