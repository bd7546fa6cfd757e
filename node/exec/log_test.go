package exec_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/node/exec"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// read returns what a request reads.
func (n *node) read(req *nodev1.ReadLogRequest) (string, error) {
	n.tb.Helper()
	stream, err := n.api.ReadLog(n.tb.Context(), req)
	require.NoError(n.tb, err)
	var out bytes.Buffer
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out.String(), nil
		}
		if err != nil {
			return out.String(), err
		}
		out.Write(part.GetData())
	}
}

// By offset, by time and from the end.
func TestALogIsReadInManyWays(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	id := n.ensure()
	spec := shell(id, "echo one; echo two; while [ ! -e go ]; do sleep 0.02; done; echo three; echo four")
	n.startExec(spec)
	n.until(spec.GetExecId(), "two\n")
	between := time.Now()
	n.touch(id, "go")
	n.wait(spec.GetExecId())
	for name, tc := range map[string]struct {
		req  *nodev1.ReadLogRequest
		want string
	}{
		"all":                {&nodev1.ReadLogRequest{}, "one\ntwo\nthree\nfour\n"},
		"since":              {&nodev1.ReadLogRequest{Since: timestamppb.New(between)}, "three\nfour\n"},
		"until":              {&nodev1.ReadLogRequest{Until: timestamppb.New(between)}, "one\ntwo\n"},
		"since long ago":     {&nodev1.ReadLogRequest{Since: timestamppb.New(time.Unix(0, 0)), Limit: 3}, "one"},
		"the last two lines": {&nodev1.ReadLogRequest{TailLines: 2}, "three\nfour\n"},
		"the last bytes":     {&nodev1.ReadLogRequest{TailBytes: 3}, "ur\n"},
		"to the end":         {&nodev1.ReadLogRequest{TailLines: 1, Follow: true}, "four\n"},
		"beyond":             {&nodev1.ReadLogRequest{Offset: 1000}, ""},
	} {
		tc.req.ExecId = spec.GetExecId()
		got, err := n.read(tc.req)
		require.NoError(t, err, name)
		require.Equal(t, tc.want, got, name)
	}
	_, err := n.read(&nodev1.ReadLogRequest{ExecId: spec.GetExecId(), Offset: 1, TailLines: 1})
	requireFault(t, err, fault.Invalid, "more than one")
}

// Search on the node.
func TestALogIsSearchedOnTheNode(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	id := n.ensure()
	spec := shell(id, "for i in $(seq 1000); do echo line $i; done; sleep 0.3; echo 'Error: broken' >&2")
	n.run(spec)
	resp, err := n.api.SearchLog(t.Context(), &nodev1.SearchLogRequest{ExecId: spec.GetExecId(), Pattern: `^line \d*99$`, Regexp: true, MaxMatches: 3})
	require.NoError(t, err)
	require.False(t, resp.GetComplete())
	require.Len(t, resp.GetMatches(), 3)
	require.Equal(t, "line 299", string(resp.GetMatches()[2].GetExcerpt()))
	rest, err := n.api.SearchLog(t.Context(), &nodev1.SearchLogRequest{
		ExecId: spec.GetExecId(), Pattern: `^line \d*99$`, Regexp: true, Offset: resp.GetNextOffset(),
	})
	require.NoError(t, err)
	require.True(t, rest.GetComplete())
	require.Len(t, rest.GetMatches(), 7)
	one, err := n.api.SearchLog(t.Context(), &nodev1.SearchLogRequest{ExecId: spec.GetExecId(), Pattern: "error:", IgnoreCase: true, ContextLines: 1})
	require.NoError(t, err)
	require.Len(t, one.GetMatches(), 1)
	match := one.GetMatches()[0]
	require.Equal(t, nodev1.LogStream_LOG_STREAM_STDERR, match.GetStream())
	require.Equal(t, "line 1000\nError: broken", string(match.GetExcerpt()))
	got, err := n.read(&nodev1.ReadLogRequest{ExecId: spec.GetExecId(), Offset: match.GetOffset(), Limit: match.GetLength()})
	require.NoError(t, err)
	require.Equal(t, "Error:", got)
	last, err := n.api.SearchLog(t.Context(), &nodev1.SearchLogRequest{
		ExecId: spec.GetExecId(), Pattern: `^line \d*99$`, Regexp: true, MaxMatches: 2, Backwards: true,
	})
	require.NoError(t, err)
	require.False(t, last.GetComplete())
	require.Equal(t, []*nodev1.LogMatch{rest.GetMatches()[5], rest.GetMatches()[6]}, last.GetMatches())
	_, err = n.api.SearchLog(t.Context(), &nodev1.SearchLogRequest{ExecId: spec.GetExecId(), Pattern: "(", Regexp: true})
	requireFault(t, err, fault.Invalid, "pattern")
	_, err = n.api.SearchLog(t.Context(), &nodev1.SearchLogRequest{ExecId: "never-was", Pattern: "x"})
	requireFault(t, err, fault.NotFound, "never-was")
}

// Rows and lines are counted on the node, and who waits for more is told at once.
func TestALogIsCountedOnTheNode(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	spec := shell(n.ensure(), "for i in $(seq 1000); do echo line $i; done; read x; printf 'end'")
	spec.StdinOpen = true
	n.startExec(spec)
	index := &nodev1.IndexLogRequest{ExecId: spec.GetExecId(), RowBytes: 100, Stride: 1000, Wait: durationpb.New(time.Minute)}
	res, err := n.api.IndexLog(t.Context(), index)
	for err == nil && res.GetLines() < 1000 {
		index.Seen = res.GetEnd()
		res, err = n.api.IndexLog(t.Context(), index)
	}
	require.NoError(t, err)
	require.False(t, res.GetEnded())
	require.True(t, res.GetComplete())
	require.EqualValues(t, 1000, res.GetRows())
	require.Equal(t, res.GetEnd(), res.GetNextOffset())
	require.Len(t, res.GetMarks(), 9, "every 1000 bytes of 8893, and at the beginning")
	for _, m := range res.GetMarks() {
		got, err := n.read(&nodev1.ReadLogRequest{ExecId: spec.GetExecId(), Offset: m.GetOffset(), Limit: 9})
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(got, fmt.Sprintf("line %d\n", m.GetLines()+1)), "%q", got)
	}
	_, err = n.api.WriteStdin(t.Context(), &nodev1.WriteStdinRequest{ExecId: spec.GetExecId(), Data: []byte("\n"), Eof: true})
	require.NoError(t, err)
	for !res.GetEnded() {
		res, err = n.api.IndexLog(t.Context(), &nodev1.IndexLogRequest{ExecId: spec.GetExecId(), Offset: res.GetNextOffset(), Seen: res.GetEnd(), Wait: durationpb.New(time.Minute)})
		require.NoError(t, err)
	}
	require.EqualValues(t, 3, res.GetEnd()-res.GetNextOffset(), "the last row has not ended")
	_, err = n.api.IndexLog(t.Context(), &nodev1.IndexLogRequest{ExecId: spec.GetExecId(), RowBytes: 1})
	requireFault(t, err, fault.Invalid, "row_bytes")
}

// Secrets do not leave the node by way of a log; the log itself keeps them.
func TestSecretsInALogAreMaskedWhereItIsRead(t *testing.T) {
	t.Parallel()
	secrets := &redact.Redactor{}
	secrets.Add("correct-horse-battery")
	n := newNode(t, func(c *exec.Config) { c.Mask = secrets.Mask })
	id := n.ensure()
	spec := shell(id, "echo my correct-horse-battery and sk-ant-abcdefghijklmnopq")
	out, text := n.run(spec)
	require.Equal(t, "my ⟦secret*********⟧ and ⟦secret************⟧\n", text)
	require.EqualValues(t, len(text), out.GetLogBytes())
	raw, err := os.ReadFile(filepath.Join(n.cfg.DataDir, "jails", id, "state", "execs", spec.GetExecId(), "data"))
	require.NoError(t, err)
	require.Equal(t, "my correct-horse-battery and sk-ant-abcdefghijklmnopq\n", string(raw))
}

// Retention deletes whole logs of ended execs, and says so.
func TestOldLogsAreDeletedWhole(t *testing.T) {
	jailtest.Differs(t, jail.DifferKernel)
	t.Parallel()
	n := newNode(t, func(c *exec.Config) { c.LogBytes, c.CollectEvery = 2500, 20*time.Millisecond })
	id := n.ensure()
	live := shell(id, "head -c 5000 /dev/zero | tr '\\0' l; echo; sleep 1000")
	n.startExec(live)
	n.until(live.GetExecId(), "l\n")
	var specs []*nodev1.ExecSpec
	for range 4 {
		spec := shell(id, "head -c 1000 /dev/zero | tr '\\0' x")
		n.startExec(spec)
		n.wait(spec.GetExecId())
		specs = append(specs, spec)
	}
	get := func(i int) *nodev1.Exec {
		resp, err := n.api.GetExec(t.Context(), &nodev1.GetExecRequest{ExecId: specs[i].GetExecId()})
		require.NoError(t, err)
		return resp.GetExec()
	}
	n.eventually(func() bool { return get(1).GetLogDeletedAt() != nil }, "a deleted log")
	require.NotNil(t, get(0).GetLogDeletedAt())
	require.Nil(t, get(2).GetLogDeletedAt())
	require.Nil(t, get(3).GetLogDeletedAt())
	require.EqualValues(t, 1000, get(0).GetLogBytes())
	_, err := n.read(&nodev1.ReadLogRequest{ExecId: specs[0].GetExecId()})
	requireFault(t, err, fault.NotFound, "was deleted")
	_, err = n.api.SearchLog(t.Context(), &nodev1.SearchLogRequest{ExecId: specs[0].GetExecId(), Pattern: "x"})
	requireFault(t, err, fault.NotFound, "was deleted")
	require.Len(t, n.log(specs[3].GetExecId(), false)[0], 1000)
	require.Len(t, n.log(live.GetExecId(), false)[0], 5001, "what runs keeps its log")
	resp, err := n.api.StartExec(t.Context(), &nodev1.StartExecRequest{Spec: specs[0]})
	require.NoError(t, err)
	require.True(t, resp.GetExisted(), "it ran again")
	dir := filepath.Join(n.cfg.DataDir, "jails", id, "state", "execs", specs[0].GetExecId())
	n.eventually(func() bool {
		_, err := os.Stat(filepath.Join(dir, "data"))
		return os.IsNotExist(err)
	}, "room made")
	_, shown := n.run(shell(id, "ls /deckhand/out"))
	require.NotContains(t, shown, specs[0].GetExecId(), "a link would keep the bytes")
	require.Contains(t, shown, specs[3].GetExecId())
	_, err = os.Stat(filepath.Join(dir, "exit"))
	require.NoError(t, err)
}

// Both streams at full speed, each whole and in its order.
func TestBothStreamsAtFullSpeed(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	id := n.ensure()
	half := jailtest.Sized(64<<20, 512<<20)
	spec := shell(id, fmt.Sprintf("(yes 'this is out' | head -c %d) & (yes 'and this is err' | head -c %d >&2); wait", half, half))
	began := time.Now()
	out := n.startExec(spec)
	out = n.wait(out.GetExecId())
	t.Logf("%d MB in %s", out.GetLogBytes()>>20, out.GetEndedAt().AsTime().Sub(began))
	require.EqualValues(t, 2*half, out.GetLogBytes())
	require.Zero(t, out.GetLogDroppedBytes())
	want := map[nodev1.LogStream]*repeated{
		nodev1.LogStream_LOG_STREAM_STDOUT: {text: "this is out\n"},
		nodev1.LogStream_LOG_STREAM_STDERR: {text: "and this is err\n"},
	}
	stream, err := n.api.ReadLog(t.Context(), &nodev1.ReadLogRequest{ExecId: spec.GetExecId()})
	require.NoError(t, err)
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.True(t, want[part.GetStream()].take(part.GetData()), "at %d", part.GetOffset())
	}
	for _, r := range want {
		require.EqualValues(t, half, r.at)
	}
}

// repeated checks that bytes are a text over and over.
type repeated struct {
	text string
	at   int
}

func (r *repeated) take(p []byte) bool {
	for len(p) > 0 {
		from := r.at % len(r.text)
		n := min(len(p), len(r.text)-from)
		if string(p[:n]) != r.text[from:from+n] {
			return false
		}
		r.at, p = r.at+n, p[n:]
	}
	return true
}

// A line of 1 GB, in the soak, read and searched.
func TestALineThatDoesNotEnd(t *testing.T) {
	oneCommand(t)
	t.Parallel()
	n := newNode(t)
	id := n.ensure()
	size := int64(jailtest.Sized(128<<20, 1<<30))
	spec := shell(id, fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x; printf needle", size))
	n.startExec(spec)
	sum := sha256.New()
	stream, err := n.api.ReadLog(t.Context(), &nodev1.ReadLogRequest{ExecId: spec.GetExecId(), Follow: true})
	require.NoError(t, err)
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		sum.Write(part.GetData())
	}
	want := sha256.New()
	_, err = io.Copy(want, io.MultiReader(io.LimitReader(same('x'), size), strings.NewReader("needle")))
	require.NoError(t, err)
	require.Equal(t, want.Sum(nil), sum.Sum(nil))
	// A search ends after a while, and says where to continue.
	var found []*nodev1.LogMatch
	for offset, complete := int64(0), false; !complete; {
		resp, err := n.api.SearchLog(t.Context(), &nodev1.SearchLogRequest{ExecId: spec.GetExecId(), Pattern: "needle", Offset: offset})
		require.NoError(t, err)
		require.True(t, resp.GetComplete() || resp.GetNextOffset() > offset, "it goes on from %d", offset)
		found, offset, complete = append(found, resp.GetMatches()...), resp.GetNextOffset(), resp.GetComplete()
	}
	require.Len(t, found, 1)
	require.EqualValues(t, size, found[0].GetOffset())
}

type same byte

func (s same) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(s)
	}
	return len(p), nil
}

// A reader that stops reading slows neither the command nor other readers.
func TestAReaderThatStopsReading(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	id := n.ensure()
	const size = 64 << 20
	spec := shell(id, fmt.Sprintf("head -c %d /dev/zero; echo done", size))
	n.startExec(spec)
	stuck, err := n.api.ReadLog(t.Context(), &nodev1.ReadLogRequest{ExecId: spec.GetExecId(), Follow: true})
	require.NoError(t, err)
	first, err := stuck.Recv()
	require.NoError(t, err)
	at := int64(len(first.GetData()))
	n.wait(spec.GetExecId())
	require.Len(t, n.log(spec.GetExecId(), true)[0], size+5)
	if pause := jailtest.Sized(0, int(time.Minute)); pause > 0 {
		<-time.After(time.Duration(pause))
	}
	for {
		part, err := stuck.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.Equal(t, at, part.GetOffset(), "a byte was left out or came twice")
		at += int64(len(part.GetData()))
	}
	require.EqualValues(t, size+5, at)
}
