package auth

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/deckhand-sh/deckhand/internal/fair"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1/deckhandv1connect"
)

const (
	// PublicBytes is how long a request may be that anybody may make, as it is
	// sent and as it is once it is unpacked.
	PublicBytes = 64 << 10
	// bodyBegin is how long a body may take to begin, and bodyRate how many bytes of it
	// must arrive each second from then on.
	bodyBegin = 30 * time.Second
	bodyRate  = 16 << 10
	// bodyRoom is how many bytes the bodies in progress may have together, and
	// bodyEach those of one caller.
	bodyRoom = 512 << 20
	bodyEach = 128 << 20
	// StreamsEach is how many streams a token or a session may have open at once.
	StreamsEach = 100
	// StreamsOrganisation is how many those of one organisation may, on one hub.
	StreamsOrganisation = 2000
)

// unhindered are the procedures that wait for no turn: a worker keeps its tasks by
// one, and by the others a person stops what runs.
var unhindered = map[string]bool{
	deckhandv1connect.WorkerServiceRenewLeasesProcedure:    true,
	deckhandv1connect.ControlServiceKillProcedure:          true,
	deckhandv1connect.NodeExecServiceKillNodeExecProcedure: true,
	deckhandv1connect.TaskServiceCancelTaskProcedure:       true,
	deckhandv1connect.TaskServicePauseTaskProcedure:        true,
	deckhandv1connect.AgentServicePauseAgentProcedure:      true,
}

// Door is the handler in front of all procedures: it admits a caller by a request's
// headers, and only then lets its body be read, within limits of size, of time, and of
// the total memory of the bodies in progress.
type Door struct {
	Guards

	// Refuse writes a refusal.
	Refuse func(w http.ResponseWriter, r *http.Request, err error)
	Next   http.Handler
	// Begin is how long a body may take to begin; NewDoor sets 30 s.
	Begin time.Duration

	room                   *fair.Room
	turns                  *fair.Turns
	streams, organisations *fair.Lanes
	// streaming says for each procedure which side streams.
	streaming map[string]streaming
}

// NewDoor creates a Door, at which the people of an organisation take turns.
func NewDoor(g Guards, turns *fair.Turns, refuse func(http.ResponseWriter, *http.Request, error), next http.Handler) *Door {
	return &Door{
		Guards: g, Refuse: refuse, Next: next, Begin: bodyBegin, room: fair.NewRoom(bodyRoom, bodyEach), turns: turns,
		streams: fair.NewLanes(StreamsEach, 0), organisations: fair.NewLanes(StreamsOrganisation, 0), streaming: streams(),
	}
}

// ServeHTTP serves one call. What is no procedure is passed on: a page, or one of
// the handlers that authenticate in their own way.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, known := RuleOf(r.URL.Path); !known {
		d.Next.ServeHTTP(w, r)
		return
	}
	d.ServeCall(w, r, r.URL.Path, d.Refuse, d.Next)
}

// ServeCall serves a call of a procedure whose request may have another form than that of
// its RPC: next makes the call of it, and refuse writes a refusal. All limits are shared
// with the calls that ServeHTTP serves.
func (d *Door) ServeCall(w http.ResponseWriter, r *http.Request, procedure string, refuse func(http.ResponseWriter, *http.Request, error), next http.Handler) {
	rule, _ := RuleOf(procedure)
	ctx, err := d.Admit(procedure, r)
	if err != nil {
		// What is still to come of the body is not waited for.
		w.Header().Set("Connection", "close")
		refuse(w, r, err)
		return
	}
	caller, streaming := callerOf(ctx, r), d.streaming[procedure]
	if streaming.caller || streaming.hub {
		leave, err := d.stream(ctx, caller)
		if err != nil {
			refuse(w, r, err)
			return
		}
		defer leave()
		var stop func()
		ctx, stop = d.Keep(ctx, procedure, r)
		defer stop()
	}
	r = r.WithContext(context.WithValue(ctx, admittedKey{}, procedure))
	if streaming.caller {
		next.ServeHTTP(w, r) // for as long as it likes
		return
	}
	if rule.Public {
		r.Body = http.MaxBytesReader(w, r.Body, PublicBytes)
	}
	b := fair.NewBody(w, r, fair.Bounds{Begin: d.Begin, Rate: bodyRate, Room: d.room}, caller)
	r.Body = b
	defer b.Leave()
	if id := Known(ctx); id.OrgID != "" && !streaming.hub && !unhindered[procedure] {
		turn := d.turns.Turn(id.OrgID)
		defer turn.End()
		r = r.WithContext(turn.With(r.Context()))
		r.Body = &turnBody{ReadCloser: b, turn: turn, ctx: r.Context(), free: PublicBytes}
	}
	next.ServeHTTP(w, r)
}

// turnBody is a body whose call waits for its turn once all of it has arrived, or so much
// that reading it is work as well. It is for one goroutine.
type turnBody struct {
	io.ReadCloser

	turn *fair.Turn
	ctx  context.Context // the call's
	free int             // what is still read without a turn
}

// Read reads a piece.
func (b *turnBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.free <= 0 {
		return n, err
	}
	if b.free -= n; b.free <= 0 || errors.Is(err, io.EOF) {
		b.free = 0
		if failed := b.turn.Begin(b.ctx); failed != nil {
			return n, failed
		}
	}
	return n, err
}

// stream lets a stream begin within the limits of its caller and organisation.
func (d *Door) stream(ctx context.Context, caller string) (leave func(), err error) {
	refuse := func(n int, whose string) error {
		return fault.New(fault.Exhausted, "%d streams are open already %s", n, whose).WithCode(fault.RateLimited).
			WithFix("end one of them first; one watch can have many tasks")
	}
	own, err := d.streams.Take(ctx, caller)
	if err != nil {
		return nil, refuse(StreamsEach, "with this token")
	}
	id := Known(ctx)
	if id.OrgID == "" || id.Kind != User && id.Kind != Program {
		return own, nil
	}
	shared, err := d.organisations.Take(ctx, id.OrgID)
	if err != nil {
		own()
		return nil, refuse(StreamsOrganisation, "in this organisation on this hub")
	}
	return func() { shared(); own() }, nil
}

// callerOf names who calls: a token or session, or else an address.
func callerOf(ctx context.Context, r *http.Request) string {
	if id := Known(ctx); id.OrgID != "" {
		return id.SessionID + id.TokenID
	}
	return RateKey(r.RemoteAddr)
}
