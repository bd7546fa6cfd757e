package sdk_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/logging"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1/deckhandv1connect"
	"github.com/deckhand-sh/deckhand/sdk"
)

// server answers tasks and a watch whose stream does what each test wants.
type server struct {
	deckhandv1connect.UnimplementedTaskServiceHandler
	deckhandv1connect.UnimplementedEventServiceHandler

	watch func(ctx context.Context, call int, req *deckhandv1.WatchRequest, stream *connect.ServerStream[deckhandv1.WatchResponse]) error

	mu      sync.Mutex
	headers []http.Header
	cursors []string
}

func (s *server) GetTask(ctx context.Context, req *deckhandv1.GetTaskRequest) (*deckhandv1.GetTaskResponse, error) {
	s.mu.Lock()
	call, _ := connect.CallInfoForHandlerContext(ctx)
	s.headers = append(s.headers, call.RequestHeader().Clone())
	s.mu.Unlock()
	if req.GetTaskId() == "none" {
		return nil, fault.ToConnect(fault.New(fault.NotFound, "there is no task none").WithFix("list them").WithObject("none").WithCode(fault.CheckpointNotFound))
	}
	return &deckhandv1.GetTaskResponse{Task: &deckhandv1.Task{Id: req.GetTaskId()}}, nil
}

func (s *server) Watch(ctx context.Context, req *deckhandv1.WatchRequest, stream *connect.ServerStream[deckhandv1.WatchResponse]) error {
	s.mu.Lock()
	call, _ := connect.CallInfoForHandlerContext(ctx)
	s.headers = append(s.headers, call.RequestHeader().Clone())
	s.cursors = append(s.cursors, req.GetCursor())
	number := len(s.cursors)
	s.mu.Unlock()
	return s.watch(ctx, number, req, stream)
}

func start(t *testing.T, s *server) *sdk.Client {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(deckhandv1connect.NewTaskServiceHandler(s))
	mux.Handle(deckhandv1connect.NewEventServiceHandler(s))
	srv := httptest.NewServer(mux)
	client, err := sdk.New(sdk.Config{URL: srv.URL + "/", Token: "dhu_secret", UserAgent: "test/1"})
	require.NoError(t, err)
	t.Cleanup(func() {
		client.HTTPClient().CloseIdleConnections()
		srv.CloseClientConnections()
		srv.Close()
	})
	return client
}

func event(n int) *deckhandv1.WatchResponse {
	return &deckhandv1.WatchResponse{
		Cursor: strconv.Itoa(n), Item: &deckhandv1.WatchResponse_Event{Event: &deckhandv1.Event{Seq: int64(n)}},
	}
}

func TestCallsCarryTokenAndCorrelationAndErrorsComeBackWhole(t *testing.T) {
	t.Parallel()
	s := &server{}
	client := start(t, s)
	ctx := logging.WithCorrelation(t.Context(), "corr-1")
	res, err := client.Tasks.GetTask(ctx, &deckhandv1.GetTaskRequest{TaskId: "task_1"})
	require.NoError(t, err)
	require.Equal(t, "task_1", res.GetTask().GetId())
	require.Equal(t, "Bearer dhu_secret", s.headers[0].Get("Authorization"))
	require.Equal(t, "corr-1", s.headers[0].Get(logging.CorrelationHeader))
	require.Equal(t, "test/1", s.headers[0].Get("User-Agent"))

	_, err = client.Tasks.GetTask(ctx, &deckhandv1.GetTaskRequest{TaskId: "none"})
	var e *sdk.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "there is no task none (AGENT_008): list them", e.Error())
	require.Equal(t, fault.NotFound, e.Kind)
	require.Equal(t, "none", e.ObjectID)
}

func TestAHubThatIsDeadReadsAsUnavailable(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	client, err := sdk.New(sdk.Config{URL: srv.URL})
	require.NoError(t, err)
	_, err = client.Tasks.GetTask(t.Context(), &deckhandv1.GetTaskRequest{TaskId: "x"})
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
}

func TestAHubThatDiesDuringACallReadsAsUnavailable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 64))
			_ = conn.(*net.TCPConn).SetLinger(0) // a reset and no end
			_ = conn.Close()
		}
	}()
	client, err := sdk.New(sdk.Config{URL: "http://" + l.Addr().String(), Token: "t"})
	require.NoError(t, err)
	_, err = client.Agents.ListAgents(t.Context(), &deckhandv1.ListAgentsRequest{})
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = client.Agents.ListAgents(cancelled, &deckhandv1.ListAgentsRequest{})
	require.True(t, fault.Is(err, fault.Canceled), "%v", err)
}

func TestURLsAndTokensThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ url, token, says string }{
		"no URL":             {"", "", "hub URL is empty"},
		"no scheme":          {"hub:7443", "", "begins with https:// or http://"},
		"no host":            {"https://", "", "names a host"},
		"a password in it":   {"https://u:secret@hub", "", "has a user"},
		"a query":            {"https://hub?x=1", "", "has a user, query"},
		"a token of 2 lines": {"https://hub", "abc\ndef", "token has spaces, line breaks"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := sdk.New(sdk.Config{URL: tc.url, Token: tc.token})
			require.ErrorContains(t, err, tc.says)
			require.NotContains(t, err.Error(), "secret")
			require.NotContains(t, err.Error(), "def")
		})
	}
}

// No gap and no repeat over links that break, hubs that restart, and silence.
func TestAWatchGoesOnWhereItsLinkBroke(t *testing.T) {
	t.Parallel()
	s := &server{watch: func(ctx context.Context, call int, req *deckhandv1.WatchRequest, stream *connect.ServerStream[deckhandv1.WatchResponse]) error {
		from := 0
		if c := req.GetCursor(); c != "" {
			from, _ = strconv.Atoi(c)
		}
		if call == 3 {
			return fault.ToConnect(fault.New(fault.Unavailable, "restarting"))
		}
		for n := from + 1; n <= 10; n++ {
			if err := stream.Send(&deckhandv1.WatchResponse{Item: &deckhandv1.WatchResponse_Heartbeat_{}}); err != nil {
				return err
			}
			if err := stream.Send(event(n)); err != nil {
				return err
			}
			if n%3 == 0 && call < 5 {
				panic(http.ErrAbortHandler)
			}
		}
		return nil
	}}
	client := start(t, s)
	var got []int64
	for res, err := range client.Watch(t.Context(), &deckhandv1.WatchRequest{Follow: true}) {
		require.NoError(t, err)
		got = append(got, res.GetEvent().GetSeq())
	}
	require.Equal(t, []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, got)
	require.Equal(t, []string{"", "3", "6", "6", "9"}, s.cursors)
	require.Equal(t, "Bearer dhu_secret", s.headers[0].Get("Authorization"))
}

func TestAWatchEndsWithItsCallerItsContextOrARefusal(t *testing.T) {
	t.Parallel()
	s := &server{watch: func(ctx context.Context, _ int, req *deckhandv1.WatchRequest, stream *connect.ServerStream[deckhandv1.WatchResponse]) error {
		if strings.HasPrefix(req.GetCursor(), "bad") {
			return fault.ToConnect(fault.New(fault.Invalid, "the cursor is broken").WithFix("begin anew"))
		}
		if err := stream.Send(event(1)); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}}
	client := start(t, s)
	for res, err := range client.Watch(t.Context(), &deckhandv1.WatchRequest{}) {
		require.NoError(t, err)
		require.EqualValues(t, 1, res.GetEvent().GetSeq())
		break
	}

	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var last error
	for _, err := range client.Watch(ctx, &deckhandv1.WatchRequest{}) {
		last = err
		cancel(cause)
	}
	require.ErrorIs(t, last, cause)

	for _, err := range client.Watch(t.Context(), &deckhandv1.WatchRequest{Cursor: "bad"}) {
		last = err
	}
	require.EqualError(t, last, "the cursor is broken: begin anew")
}
