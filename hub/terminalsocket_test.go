package hub_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/node/nodetest"
	errorv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/error/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// socketTo is a browser's WebSocket with what its page and its cookies say.
func socketTo(t *testing.T, r *rig, header http.Header) (*websocket.Conn, int) {
	t.Helper()
	conn, res, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(r.URL(), "http")+"/terminals", &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		require.NotNil(t, res, "%v", err)
		return nil, res.StatusCode
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	conn.SetReadLimit(1 << 20)
	return conn, res.StatusCode
}

func say(t *testing.T, conn *websocket.Conn, m *deckhandv1.OpenTerminalRequest) {
	t.Helper()
	data, err := proto.Marshal(m)
	require.NoError(t, err)
	require.NoError(t, conn.Write(t.Context(), websocket.MessageBinary, data))
}

func heard(t *testing.T, conn *websocket.Conn) *deckhandv1.OpenTerminalResponse {
	t.Helper()
	kind, data, err := conn.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, websocket.MessageBinary, kind, "%s", data)
	m := new(deckhandv1.OpenTerminalResponse)
	require.NoError(t, proto.Unmarshal(data, m))
	return m
}

func opening(open *deckhandv1.OpenTerminalRequest_Open) *deckhandv1.OpenTerminalRequest {
	return &deckhandv1.OpenTerminalRequest{Message: &deckhandv1.OpenTerminalRequest_Open_{Open: open}}
}

// A browser's terminal is that of the RPC, over a WebSocket: it carries what
// is typed and shown, is recorded, and is hung up when the page is left.
func TestABrowsersTerminal(t *testing.T) {
	t.Parallel()
	r := newRigOn(t, hubtest.Shared(t), nodetest.Config{Live: echoing})
	own := http.Header{"Cookie": {login(t, r.Hub, r.AdminToken)}, "Origin": {r.URL()}}
	conn, status := socketTo(t, r, own)
	require.Equal(t, http.StatusSwitchingProtocols, status)
	say(t, conn, opening(&deckhandv1.OpenTerminalRequest_Open{
		NodeId: "sim", Target: &deckhandv1.OpenTerminalRequest_Open_Host{Host: true}, Size: &deckhandv1.TerminalSize{Rows: 24, Cols: 80},
	}))
	exec := heard(t, conn).GetOpened()
	require.True(t, exec.GetTerminal())
	shown := ""
	until := func(text string) {
		t.Helper()
		for !strings.Contains(shown, text) {
			shown += string(heard(t, conn).GetOutput())
		}
	}
	until("HOST:sim")
	say(t, conn, &deckhandv1.OpenTerminalRequest{Message: &deckhandv1.OpenTerminalRequest_Input{Input: []byte("ls\n")}})
	until("<ls\n>")
	say(t, conn, &deckhandv1.OpenTerminalRequest{Message: &deckhandv1.OpenTerminalRequest_Resize{Resize: &deckhandv1.TerminalSize{Rows: 50, Cols: 132}}})
	until("132")
	say(t, conn, &deckhandv1.OpenTerminalRequest{Message: &deckhandv1.OpenTerminalRequest_Input{Input: []byte("exit")}})
	until("<exit>")
	require.EqualValues(t, 5, heard(t, conn).GetEnded().GetExitCode())
	_, _, err := conn.Read(t.Context())
	require.Equal(t, websocket.StatusNormalClosure, websocket.CloseStatus(err), "%v", err)
	log, err := nodeLog(t, r.user, &deckhandv1.ReadNodeLogRequest{ExecId: exec.GetId()})
	require.NoError(t, err)
	require.Equal(t, shown, log["pty"], "it is recorded")

	conn, _ = socketTo(t, r, own)
	say(t, conn, opening(&deckhandv1.OpenTerminalRequest_Open{
		NodeId: "sim", Target: &deckhandv1.OpenTerminalRequest_Open_Host{Host: true}, Size: &deckhandv1.TerminalSize{Rows: 24, Cols: 80},
	}))
	left := heard(t, conn).GetOpened()
	require.NoError(t, conn.CloseNow())
	gone := ended(t, r.user, left.GetId())
	require.Equal(t, "killed", gone.GetEndReason())
	require.Equal(t, "admin (hung up)", gone.GetKilledBy())
}

// Who may not have a terminal gets no WebSocket, and another site's page gets
// none with this hub's cookie.
func TestABrowsersTerminalIsRefused(t *testing.T) {
	t.Parallel()
	r := newRigOn(t, hubtest.Shared(t), nodetest.Config{Live: echoing})
	cookie := login(t, r.Hub, r.AdminToken)
	for what, c := range map[string]struct {
		header http.Header
		status int
	}{
		"nobody":             {http.Header{"Origin": {r.URL()}}, http.StatusUnauthorized},
		"a worker":           {http.Header{"Authorization": {"Bearer " + r.WorkerToken}}, http.StatusForbidden},
		"another site":       {http.Header{"Cookie": {cookie}, "Origin": {"https://elsewhere.example"}}, http.StatusForbidden},
		"another site, said": {http.Header{"Cookie": {cookie}, "Origin": {r.URL()}, "Sec-Fetch-Site": {"cross-site"}}, http.StatusForbidden},
		"a page unsaid":      {http.Header{"Cookie": {cookie}}, http.StatusForbidden},
		"a token":            {http.Header{"Authorization": {"Bearer " + r.AdminToken}}, http.StatusSwitchingProtocols},
	} {
		_, status := socketTo(t, r, c.header)
		require.Equal(t, c.status, status, what)
	}

	conn, _ := socketTo(t, r, http.Header{"Cookie": {cookie}, "Origin": {r.URL()}})
	say(t, conn, opening(&deckhandv1.OpenTerminalRequest_Open{NodeId: "sim", Target: &deckhandv1.OpenTerminalRequest_Open_Host{Host: true}}))
	kind, data, err := conn.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, websocket.MessageText, kind)
	info := new(errorv1.ErrorInfo)
	require.NoError(t, protojson.Unmarshal(data, info))
	require.Contains(t, info.GetMessage(), "size")

	conn, _ = socketTo(t, r, http.Header{"Cookie": {cookie}, "Origin": {r.URL()}})
	say(t, conn, opening(&deckhandv1.OpenTerminalRequest_Open{
		NodeId: "nowhere", Target: &deckhandv1.OpenTerminalRequest_Open_Host{Host: true}, Size: &deckhandv1.TerminalSize{Rows: 24, Cols: 80},
	}))
	_, data, err = conn.Read(t.Context())
	require.NoError(t, err)
	require.NoError(t, protojson.Unmarshal(data, info))
	require.NotEmpty(t, info.GetFix())
	require.Contains(t, info.GetMessage(), "nowhere")
}
