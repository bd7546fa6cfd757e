package fair

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// bodyPiece is how many bytes of a body take room at once.
const bodyPiece = 32 << 10

// ErrFull refuses a body that there is no room for.
var ErrFull = fault.New(fault.Exhausted, "the requests in progress are too large together").WithCode(fault.RateLimited).
	WithFix("try again when they have ended").WithRetryAfter(time.Second)

// Bounds are those of a [Body].
type Bounds struct {
	// Begin is how long a body may take to begin.
	Begin time.Duration
	// Rate is how many bytes of it have to come in a second from then on; with 0
	// the whole of it has to come within Begin.
	Rate int64
	// Room is shared by the bodies in progress; without any of it left a read fails
	// with [ErrFull].
	Room *Room
}

// Body is a request's body that has to come within time and room. It is for one
// goroutine. A read that comes too late fails with os.ErrDeadlineExceeded.
type Body struct {
	io.ReadCloser

	bounds      Bounds
	who         []string
	control     *http.ResponseController
	began       time.Time // when it has to have begun
	read, taken int64
	over        bool
}

// NewBody bounds the body of r, which who sends. Its room is taken as it comes,
// until Leave.
func NewBody(w http.ResponseWriter, r *http.Request, bounds Bounds, who ...string) *Body {
	return &Body{ReadCloser: r.Body, bounds: bounds, who: who, control: http.NewResponseController(w), began: time.Now().Add(bounds.Begin)}
}

// Read reads a piece.
func (b *Body) Read(p []byte) (int, error) {
	if b.over {
		return b.ReadCloser.Read(p)
	}
	if b.read >= b.taken {
		if !b.bounds.Room.Take(bodyPiece, b.who...) {
			return 0, ErrFull
		}
		b.taken += bodyPiece
	}
	// Read no more than there is room for.
	p = p[:min(int64(len(p)), b.taken-b.read)]
	deadline := b.began
	if b.bounds.Rate > 0 {
		deadline = deadline.Add(time.Duration(b.read) * time.Second / time.Duration(b.bounds.Rate))
	}
	// If it cannot be set, as with HTTP/2 in a test, there is no limit.
	_ = b.control.SetReadDeadline(deadline)
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if err != nil {
		b.over = true
		if errors.Is(err, io.EOF) {
			// The caller may wait for the response for as long as it takes.
			_ = b.control.SetReadDeadline(time.Time{})
		}
	}
	return n, err
}

// Leave gives back the room.
func (b *Body) Leave() {
	if b.taken > 0 {
		b.bounds.Room.Give(b.taken, b.who...)
		b.taken = 0
	}
}
