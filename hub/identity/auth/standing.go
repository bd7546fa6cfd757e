package auth

import (
	"context"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// lookEvery is the interval at which the rights of a stream's caller are checked. Tokens
// and sessions are cached for as long, so that the streams of one caller share one query.
const lookEvery = 2 * time.Second

// Keep returns a context for an admitted call. It ends, with the reason as its cause,
// when the caller may no longer make the call: their token, session, role or scope, or an
// access rule, has changed. Call stop when the call is over.
func (g Guards) Keep(ctx context.Context, procedure string, r *http.Request) (kept context.Context, stop func()) {
	rule, _ := RuleOf(procedure)
	if rule.Public {
		return ctx, func() {}
	}
	kept, end := context.WithCancelCause(ctx)
	before := From(ctx)
	// A timer and no goroutine, whose stack would be kept for each stream.
	var again *time.Timer
	again = time.AfterFunc(math.MaxInt64, func() {
		if kept.Err() != nil {
			return
		}
		if err := g.stands(kept, before, procedure, rule, r); err != nil {
			end(err)
			return
		}
		again.Reset(lookEvery)
	})
	again.Reset(lookEvery) // it can name itself from now on
	return kept, func() { end(nil); again.Stop() }
}

// stands refuses a caller who may no longer make a call. If the rights cannot be read,
// they are checked at the next interval.
func (g Guards) stands(ctx context.Context, before Identity, procedure string, rule Rule, r *http.Request) error {
	now, err := g.identify(ctx, r.RemoteAddr, r.Header)
	switch {
	case fault.Is(err, fault.Unauthenticated):
		return err
	case before.Kind == Program && fault.Is(err, fault.Denied): // not any more
		return err
	case err != nil:
		return nil
	case before.Kind == Program:
		if now.TaskID != before.TaskID {
			return fault.New(fault.Denied, "task %s, whose program this is, does not run in the jail any more", before.TaskID).WithCode(fault.PermissionDenied).WithFix("call again")
		}
		return Allow(now, procedure, rule)
	case now.Role != before.Role || !slices.Equal(now.Scope.Services, before.Scope.Services) || now.Scope.ReadOnly != before.Scope.ReadOnly:
		return fault.New(fault.Denied, "your rights have changed").WithCode(fault.PermissionDenied).WithFix("call again")
	}
	if err := Allow(now, procedure, rule); err != nil {
		return err
	}
	if err := g.from(ctx, now, procedure, r.RemoteAddr, r.Header); fault.Is(err, fault.Denied) {
		return err
	}
	return nil
}

// streaming reports whether a procedure's caller, and whether its hub, sends a stream.
type streaming struct{ caller, hub bool }

// streams returns for each procedure with a rule who streams.
func streams() map[string]streaming {
	out := make(map[string]streaming, len(rules))
	for procedure := range rules {
		name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(procedure, "/"), "/", "."))
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
		if err != nil {
			continue
		}
		if m, ok := d.(protoreflect.MethodDescriptor); ok {
			out[procedure] = streaming{caller: m.IsStreamingClient(), hub: m.IsStreamingServer()}
		}
	}
	return out
}
