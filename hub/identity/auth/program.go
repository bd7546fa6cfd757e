package auth

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/fault"
	c "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1/deckhandv1connect"
)

// Program is the kind of programs in the jail of a task whose persona has hub_access. They
// have no token: the hub knows from which jail a call comes.
const Program Kind = "program"

// programMay are the procedures that programs may call: to read their own task and its
// subtasks, to give work to subtasks, and to send the parent a message. Package api checks
// that a call names no other task. None of them decides about anything.
var programMay = map[string]bool{
	c.TaskServiceGetTaskProcedure:     true,
	c.TaskServiceListStepsProcedure:   true,
	c.EventServiceListEventsProcedure: true,
	c.EventServiceWatchProcedure:      true,
	c.TaskServiceSubmitTaskProcedure:  true,
	c.TaskServiceTellTaskProcedure:    true,
}

// ProgramMay returns the procedures that programs in jails may call.
func ProgramMay() []string { return slices.Sorted(maps.Keys(programMay)) }

type programKey struct{}

// ByProgram returns the context of a request of a program in a jail. identify returns the
// identity of the jail's task, and is called for each call and every few seconds of a stream;
// credentials that the request has are ignored.
func ByProgram(ctx context.Context, identify func(context.Context) (Identity, error)) context.Context {
	return context.WithValue(ctx, programKey{}, identify)
}

// IsProgram reports whether a request is one of a program in a jail.
func IsProgram(ctx context.Context) bool { return programOf(ctx) != nil }

func programOf(ctx context.Context) func(context.Context) (Identity, error) {
	identify, _ := ctx.Value(programKey{}).(func(context.Context) (Identity, error))
	return identify
}

// allowProgram refuses procedures that programs in jails may not call.
func allowProgram(id Identity, procedure string) error {
	if programMay[procedure] {
		if id.Scope.ReadOnly && !Reads(procedure) {
			return fault.New(fault.Denied, "a task in this jail is in review mode: until its work is accepted, its programs may only read").
				WithCode(fault.PermissionDenied).WithFix("have the agent use a tool, whose call is deferred")
		}
		return nil
	}
	var names []string
	for _, one := range ProgramMay() {
		_, method := split(one)
		names = append(names, method)
	}
	return fault.New(fault.Denied, "a program in a jail may not call %s", procedure).WithCode(fault.PermissionDenied).
		WithFix("it may call %s, for its own task; have the agent use a tool for anything else", strings.Join(names, ", "))
}
