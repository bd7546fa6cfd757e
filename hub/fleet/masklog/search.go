package masklog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// near is how far apart two excerpts may be to be read at once, in bytes, and
// mostRead about how much that may come to.
const (
	near     = 64 << 10
	mostRead = 4 << 20
)

// SearchLog searches a log. Matches inside a secret value are dropped and the search
// continues after it, so that a caller cannot confirm a guessed secret.
func (e execs) SearchLog(ctx context.Context, req *nodev1.SearchLogRequest, opts ...grpc.CallOption) (*nodev1.SearchLogResponse, error) {
	res, err := e.ExecServiceClient.SearchLog(ctx, req, opts...)
	if err != nil || e.redact.Reach() == 0 {
		return res, err
	}
	found := res.GetMatches()
	if res.Matches, err = e.cover(ctx, req.GetExecId(), found); err != nil {
		return nil, err
	}
	left := len(found) - len(res.GetMatches())
	if left == 0 || res.GetComplete() {
		return res, nil
	}
	again := proto.CloneOf(req)
	again.MaxMatches = int32(left) //nolint:gosec // at most as many as were asked for
	if req.GetBackwards() {
		again.End = res.GetNextOffset()
	} else {
		again.Offset = res.GetNextOffset()
	}
	more, err := e.SearchLog(ctx, again, opts...)
	if err != nil {
		return nil, err
	}
	if req.GetBackwards() {
		more.Matches = append(more.GetMatches(), res.GetMatches()...)
	} else {
		more.Matches = append(res.GetMatches(), more.GetMatches()...)
	}
	return more, nil
}

// cover masks what surrounds matches, and leaves out those that are not to be
// known.
func (e execs) cover(ctx context.Context, execID string, matches []*nodev1.LogMatch) ([]*nodev1.LogMatch, error) {
	for first := 0; first < len(matches); {
		from, to := matches[first].GetExcerptOffset(), ends(matches[first])
		next := first + 1
		for next < len(matches) && matches[next].GetExcerptOffset() <= to+near && ends(matches[next])-from <= mostRead {
			from, to = min(from, matches[next].GetExcerptOffset()), max(to, ends(matches[next]))
			next++
		}
		text, err := e.text(ctx, execID, from, to)
		if err != nil {
			return nil, fmt.Errorf("read what surrounds a match: %w", err)
		}
		for _, m := range matches[first:next] {
			m.Excerpt = shown(m, text, from)
		}
		first = next
	}
	return slices.DeleteFunc(matches, func(m *nodev1.LogMatch) bool { return m.GetExcerpt() == nil }), nil
}

func ends(m *nodev1.LogMatch) int64 { return m.GetExcerptOffset() + int64(len(m.GetExcerpt())) }

// text reads a range of a log, masked. It may be shorter: what its end looks
// like is not known yet.
func (e execs) text(ctx context.Context, execID string, from, to int64) ([]byte, error) {
	in, err := e.ReadLog(ctx, &nodev1.ReadLogRequest{ExecId: execID, Offset: from, Limit: to - from})
	if err != nil {
		return nil, err
	}
	out := make([]byte, to-from)
	known := 0
	for {
		piece, err := in.Recv()
		if errors.Is(err, io.EOF) {
			return out[:known], nil
		}
		if err != nil {
			return nil, err
		}
		// Where nothing was kept there are zeros, as in the node's excerpts.
		if at := piece.GetOffset() - from; at >= 0 && at < int64(len(out)) {
			known = max(known, int(at)+copy(out[at:], piece.GetData()))
		}
	}
}

// shown returns a match's excerpt as the masked text has it; nil when what
// matched is not to be known.
func shown(m *nodev1.LogMatch, text []byte, from int64) []byte {
	at := min(m.GetExcerptOffset()-from, int64(len(text)))
	out := text[at:min(at+int64(len(m.GetExcerpt())), int64(len(text)))]
	begin := min(max(m.GetOffset()-m.GetExcerptOffset(), 0), int64(len(m.GetExcerpt())))
	end := min(begin+m.GetLength(), int64(len(m.GetExcerpt())))
	if end > int64(len(out)) || !bytes.Equal(out[begin:end], m.GetExcerpt()[begin:end]) {
		return nil
	}
	return slices.Clone(out)
}
