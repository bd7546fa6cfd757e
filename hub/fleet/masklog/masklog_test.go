package masklog_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"pgregory.net/rapid"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/fleet/masklog"
	"github.com/deckhand-sh/deckhand/internal/redact"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const value = "canary-of-the-vault-0123456789"

// logs is a node with one log, over real gRPC.
type logs struct {
	nodev1.UnimplementedExecServiceServer
	machine.Link

	pieces []*nodev1.ReadLogResponse
	live   bool
	client nodev1.ExecServiceClient
}

func (l *logs) Exec() nodev1.ExecServiceClient { return l.client }

func (l *logs) ReadLog(req *nodev1.ReadLogRequest, out nodev1.ExecService_ReadLogServer) error {
	end := int64(1 << 40)
	if req.GetLimit() > 0 {
		end = req.GetOffset() + req.GetLimit()
	}
	for _, p := range l.pieces {
		from, to := max(p.GetOffset(), req.GetOffset()), min(p.GetOffset()+int64(len(p.GetData())), end)
		if from >= to {
			continue
		}
		if err := out.Send(&nodev1.ReadLogResponse{Offset: from, Stream: p.GetStream(), Data: p.GetData()[from-p.GetOffset() : to-p.GetOffset()]}); err != nil {
			return err
		}
	}
	return nil
}

func (l *logs) SearchLog(_ context.Context, req *nodev1.SearchLogRequest) (*nodev1.SearchLogResponse, error) {
	text := ""
	for _, p := range l.pieces {
		text += string(p.GetData())
	}
	res := &nodev1.SearchLogResponse{}
	if req.GetBackwards() {
		return back(text, req), nil
	}
	for at := int(req.GetOffset()); len(res.GetMatches()) < int(req.GetMaxMatches()); {
		i := strings.Index(text[at:], req.GetPattern())
		if i < 0 {
			res.NextOffset, res.Complete = int64(len(text)), true
			return res, nil
		}
		at += i
		from, to := max(0, at-10), min(len(text), at+len(req.GetPattern())+10)
		res.Matches = append(res.Matches, &nodev1.LogMatch{
			Offset: int64(at), Length: int64(len(req.GetPattern())), Excerpt: []byte(text[from:to]), ExcerptOffset: int64(from),
		})
		at += len(req.GetPattern())
		res.NextOffset = int64(at)
	}
	return res, nil
}

// back is SearchLog from the end.
func back(text string, req *nodev1.SearchLogRequest) *nodev1.SearchLogResponse {
	res := &nodev1.SearchLogResponse{}
	if req.GetEnd() > 0 {
		text = text[:req.GetEnd()]
	}
	for len(res.GetMatches()) < int(req.GetMaxMatches()) {
		i := strings.LastIndex(text, req.GetPattern())
		if i < 0 {
			res.Complete = true
			return res
		}
		res.Matches = append([]*nodev1.LogMatch{{
			Offset: int64(i), Length: int64(len(req.GetPattern())), Excerpt: []byte(text[i : i+len(req.GetPattern())]), ExcerptOffset: int64(i),
		}}, res.GetMatches()...)
		text, res.NextOffset = text[:i], int64(i)
	}
	return res
}

func (l *logs) WaitExec(context.Context, *nodev1.WaitExecRequest) (*nodev1.WaitExecResponse, error) {
	e := &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_EXITED}
	if l.live {
		e.EndReason = nodev1.EndReason_END_REASON_UNSPECIFIED
	}
	return &nodev1.WaitExecResponse{Exec: e}, nil
}

// serve returns a node whose log has these pieces; those that begin with 2> are of
// stderr.
func serve(t testing.TB, pieces ...string) *logs {
	l := &logs{}
	at := int64(0)
	for _, p := range pieces {
		stream := nodev1.LogStream_LOG_STREAM_STDOUT
		if rest, other := strings.CutPrefix(p, "2>"); other {
			p, stream = rest, nodev1.LogStream_LOG_STREAM_STDERR
		}
		l.pieces = append(l.pieces, &nodev1.ReadLogResponse{Offset: at, Stream: stream, Data: []byte(p)})
		at += int64(len(p))
	}
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	nodev1.RegisterExecServiceServer(server, l)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:node", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	l.client = nodev1.NewExecServiceClient(conn)
	return l
}

func known(values ...string) *redact.Redactor {
	r := &redact.Redactor{}
	r.Add(values...)
	return r
}

// read returns the bytes of a reading, each at its reported offset.
func read(t testing.TB, node machine.Link, req *nodev1.ReadLogRequest) string {
	in, err := node.Exec().ReadLog(context.Background(), req)
	require.NoError(t, err)
	out, next := "", int64(-1)
	for {
		p, err := in.Recv()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		if next >= 0 {
			require.Equal(t, next, p.GetOffset(), "each byte once and in order")
		}
		next = p.GetOffset() + int64(len(p.GetData()))
		out += string(p.GetData())
	}
}

// A value that only the hub knows is masked in what it reads of a node's
// log, however it is cut, wherever a reading begins and ends; offsets hold.
func TestAKnownValueIsMaskedInALog(t *testing.T) {
	t.Parallel()
	marker := "⟦secret" + strings.Repeat("*", len(value)-len("⟦secret⟧")) + "⟧"
	for name, c := range map[string]struct {
		pieces []string
		req    *nodev1.ReadLogRequest
		want   string
	}{
		"whole":                  {[]string{"key=" + value + "\n"}, nil, "key=" + marker + "\n"},
		"split over pieces":      {[]string{"key=cana", value[4:20], value[20:] + "\nend"}, nil, "key=" + marker + "\nend"},
		"split by another one":   {[]string{"a " + value[:9], "2>some error\n", value[9:] + " b"}, nil, "a " + marker[:9] + "some error\n" + marker[9:] + " b"},
		"begun in the middle":    {[]string{"key=" + value + " end"}, &nodev1.ReadLogRequest{Offset: 12}, marker[8:] + " end"},
		"ended in the middle":    {[]string{"key=" + value + " end"}, &nodev1.ReadLogRequest{Limit: 12}, "key=" + marker[:8]},
		"both":                   {[]string{"key=" + value + " end"}, &nodev1.ReadLogRequest{Offset: 7, Limit: 9}, marker[3:12]},
		"a beginning alone":      {[]string{"the can", "ary-of-the-"}, &nodev1.ReadLogRequest{Follow: true}, "the canary-of-the-"},
		"a beginning and a stop": {[]string{"the canary-of-the-other"}, &nodev1.ReadLogRequest{Limit: 17}, "the canary-of-the"},
	} {
		req := c.req
		if req == nil {
			req = &nodev1.ReadLogRequest{}
		}
		require.Equal(t, c.want, read(t, masklog.Masked(serve(t, c.pieces...), known(value)), req), name)
	}
	live := serve(t, "the canary-of")
	live.live = true
	require.Equal(t, "the ", read(t, masklog.Masked(live, known(value)), &nodev1.ReadLogRequest{}), "what it becomes is not known yet")
	require.Equal(t, "the canary-of", read(t, masklog.Masked(live, known()), &nodev1.ReadLogRequest{}))
}

// However a log is cut into pieces and read, the masked bytes are the same.
func TestMaskingDoesNotDependOnHowALogIsRead(t *testing.T) {
	t.Parallel()
	r := known(value, "another-value-abcabcabc")
	rapid.Check(t, func(rt *rapid.T) {
		var parts []string
		for range rapid.IntRange(1, 12).Draw(rt, "parts") {
			parts = append(parts, rapid.SampledFrom([]string{value, "another-value-abcabcabc", "another-value-abc", "canary-of", "\n", "plain text ", "x"}).Draw(rt, "part"))
		}
		text := strings.Join(parts, "")
		want := []byte(text)
		r.MaskValues(want)
		var pieces []string
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(rt, "cut")
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		from := rapid.IntRange(0, len(text)-1).Draw(rt, "from")
		limit := rapid.IntRange(1, len(text)-from).Draw(rt, "limit")
		got := read(t, masklog.Masked(serve(t, pieces...), r), &nodev1.ReadLogRequest{Offset: int64(from), Limit: int64(limit)})
		if len(got) != limit {
			rt.Fatalf("from %d of %d: %q", from, limit, got)
		}
		shown := 0 // of a value, in a row: up to three bytes give nothing away
		for i, c := range []byte(got) {
			switch {
			case want[from+i] == text[from+i] && c != text[from+i]:
				rt.Fatalf("from %d of %d: %q is not %q", from, limit, got, want[from:from+limit])
			case want[from+i] == text[from+i] || c != text[from+i]:
				shown = 0
			default:
				if shown++; shown > 3 {
					rt.Fatalf("from %d of %d: %q shows what %q does not", from, limit, got, want[from:from+limit])
				}
			}
		}
	})
}

// A search reveals nothing of a value: neither its text nor whether a guess is right.
func TestASearchTellsNothingOfAValue(t *testing.T) {
	t.Parallel()
	text := "first line\nkey=" + value + "\nthe key is above\n" + strings.Repeat("-", 100) + "\nkey again\n"
	node := masklog.Masked(serve(t, text), known(value))
	search := func(pattern string, most int32) *nodev1.SearchLogResponse {
		res, err := node.Exec().SearchLog(t.Context(), &nodev1.SearchLogRequest{Pattern: pattern, MaxMatches: most})
		require.NoError(t, err)
		require.NotContains(t, fmt.Sprint(res), "canary")
		return res
	}
	require.Len(t, search("key", 10).GetMatches(), 3)
	require.Equal(t, "irst line\nkey=⟦secret*", string(search("key=", 10).GetMatches()[0].GetExcerpt()))
	for _, guess := range []string{"canary-of", "canary-xy", "0123456789"} {
		res := search(guess, 1)
		require.Empty(t, res.GetMatches())
		require.True(t, res.GetComplete(), "right or wrong, the answer is the same")
		require.EqualValues(t, len(text), res.GetNextOffset())
	}
	last, err := node.Exec().SearchLog(t.Context(), &nodev1.SearchLogRequest{Pattern: "e", MaxMatches: 4, Backwards: true})
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprint(last), "canary")
	require.Len(t, last.GetMatches(), 4)
	require.IsIncreasing(t, []int64{last.GetMatches()[0].GetOffset(), last.GetMatches()[1].GetOffset(), last.GetMatches()[2].GetOffset(), last.GetMatches()[3].GetOffset()})
	none, err := node.Exec().SearchLog(t.Context(), &nodev1.SearchLogRequest{Pattern: "canary-of", MaxMatches: 1, Backwards: true})
	require.NoError(t, err)
	require.Empty(t, none.GetMatches())
	require.True(t, none.GetComplete())
	require.Len(t, search("e", 3).GetMatches(), 3, "as many as were asked for, though some are left out")
}
