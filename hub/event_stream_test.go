package hub_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// sseEvent is a server-sent event.
type sseEvent struct{ id, name, data string }

// sseReader reads server-sent events.
type sseReader struct {
	t    *testing.T
	body io.Closer
	in   *bufio.Reader
	// last is the last id, as a browser keeps it.
	last string
	// comments is how many there were.
	comments int
}

// openSSE opens a stream; a stream that is refused has another status.
func openSSE(t *testing.T, address string, header http.Header) (*sseReader, *http.Response) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	req.Header = header.Clone()
	req.Header.Set("Accept", "text/event-stream")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })
	return &sseReader{t: t, body: res.Body, in: bufio.NewReader(res.Body)}, res
}

// next returns the next event; false at the end.
func (s *sseReader) next() (e sseEvent, ok bool) {
	s.t.Helper()
	for {
		line, err := s.in.ReadString('\n')
		if err != nil {
			return e, false
		}
		switch name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":"); name {
		case "":
			if value != "" || line == ":\n" {
				s.comments++
			} else if e.data != "" {
				return e, true
			}
		case "id":
			e.id = strings.TrimPrefix(value, " ")
			s.last = e.id
		case "event":
			e.name = strings.TrimPrefix(value, " ")
		case "data":
			e.data += strings.TrimPrefix(value, " ")
		}
	}
}

// record stores events of a task as its worker would.
func (r *rig) record(task string, from, n int) {
	r.t.Helper()
	r.exec(fmt.Sprintf(`SELECT append_events(t.id, t.org_id, 1, t.correlation_id, ARRAY['progress_update'], ARRAY['hub'], ARRAY['hub'],
		ARRAY[format('{"n": %%s}', n)], '{}') FROM tasks t, generate_series(%d, %d) AS n WHERE t.id = '%s'`, from, from+n-1, task))
}

// A browser reads a task's events with its session, is told where it is, and continues
// there: nothing is missed and nothing comes twice.
func TestServerSentEvents(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	task, other := r.submit("walker").GetId(), r.submit("walker").GetId()
	r.record(task, 1, 300)
	session := http.Header{"Cookie": {login(t, r.Hub, r.AdminToken)}, "Sec-Fetch-Site": {"same-origin"}}
	address := r.URL() + "/v1/events?kinds=progress_update&task=" + task
	stream, res := openSSE(t, address, session)
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	seen := 0
	read := func(s *sseReader, until int) {
		t.Helper()
		for seen < until {
			e, ok := s.next()
			require.True(t, ok, "the stream ended after %d", seen)
			require.Equal(t, "progress_update", e.name)
			require.NotEmpty(t, e.id)
			var event struct {
				TaskID  string
				Payload struct{ N int }
			}
			require.NoError(t, json.Unmarshal([]byte(e.data), &event))
			require.Equal(t, task, event.TaskID)
			seen++
			require.Equal(t, seen, event.Payload.N, "in order, no gap, no repeat")
		}
	}
	read(stream, 120)
	require.NoError(t, stream.body.Close())
	r.record(other, 1, 5) // of another task
	resumed := session.Clone()
	resumed.Set("Last-Event-Id", stream.last)
	second, _ := openSSE(t, address, resumed)
	read(second, 300)
	// Live ones come as they are stored.
	r.record(task, 301, 3)
	read(second, 303)
	require.NoError(t, second.body.Close())

	// By agent, with a token, from now on; both tasks are of it.
	token := http.Header{"Authorization": {"Bearer " + r.AdminToken}}
	live, res := openSSE(t, r.URL()+"/v1/events?agent=walker&kinds=progress_update&after=now", token)
	require.Equal(t, http.StatusOK, res.StatusCode)
	r.record(other, 6, 1)
	e, ok := live.next()
	require.True(t, ok)
	require.Contains(t, e.data, other)
	require.NoError(t, live.body.Close())

	// At the end the client is told, and one that comes back has nothing more to get.
	for _, id := range []string{task, other} {
		r.cancel(id)
	}
	ended, _ := openSSE(t, address, token)
	for e, ok = ended.next(); ok && e.name != "end"; e, ok = ended.next() {
		require.Equal(t, "progress_update", e.name)
	}
	require.True(t, ok, "it is told that the task has ended")
	token.Set("Last-Event-Id", ended.last)
	_, res = openSSE(t, address, token)
	require.Equal(t, http.StatusNoContent, res.StatusCode)

	for path, status := range map[string]int{
		"?task=task_none": http.StatusNotFound, "?tsak=x": http.StatusBadRequest, "?kinds=nonsense": http.StatusBadRequest, "?follow=maybe": http.StatusBadRequest,
		"?after=nonsense": http.StatusBadRequest,
	} {
		res, body := restCall(t, http.MethodGet, r.URL()+"/v1/events"+path, r.AdminToken, nil, nil)
		require.Equal(t, status, res.StatusCode, "%s: %s", path, body)
		problem(t, res, body)
	}
}

// update is a message of the updates of a task.
type update struct {
	ID, Cursor string
	Event      *struct {
		Type    string
		Payload struct{ N int }
	}
	Result  map[string]any
	Problem *struct{ Code, Detail, Fix string }
}

// A WebSocket has the events of a task from a cursor on, and takes commands for it: each
// with the rights of who sends it.
func TestTheUpdatesOfATask(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.apply("asker", asking("asker", "tools: [shell_exec]"))
	task, _, item := r.park("asker", "shell_exec", `{"command":"rm -rf build"}`)
	dial := func(token, query string) *websocket.Conn {
		t.Helper()
		conn, res, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(r.URL(), "http")+"/v1/tasks/"+task.GetId()+"/updates"+query,
			&websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + token}}})
		require.NoError(t, err)
		require.Equal(t, http.StatusSwitchingProtocols, res.StatusCode)
		t.Cleanup(func() { _ = conn.CloseNow() })
		conn.SetReadLimit(4 << 20)
		return conn
	}
	conn := dial(r.AdminToken, "")
	next := func(conn *websocket.Conn, what func(update) bool) update {
		t.Helper()
		for {
			kind, data, err := conn.Read(t.Context())
			require.NoError(t, err)
			require.Equal(t, websocket.MessageText, kind)
			var u update
			require.NoError(t, json.Unmarshal(data, &u), "%s", data)
			if what(u) {
				return u
			}
		}
	}
	command := func(conn *websocket.Conn, id, text string) update {
		t.Helper()
		require.NoError(t, conn.Write(t.Context(), websocket.MessageText, []byte(text)))
		return next(conn, func(u update) bool { return u.ID == id && u.Event == nil && u.Cursor == "" })
	}
	first := next(conn, func(u update) bool { return u.Event != nil })
	require.Equal(t, "task.submitted", first.Event.Type)
	require.NotEmpty(t, first.Cursor)

	tell := `{"id": "1", "key": "tell-1", "message": {"text": "Use the staging database."}}`
	told := command(conn, "1", tell)
	require.Nil(t, told.Problem)
	require.NotNil(t, told.Result)
	// The answer may have been lost: with its key, the command is repeated by another connection.
	again := command(dial(r.AdminToken, ""), "1", tell)
	require.Nil(t, again.Problem)
	require.Equal(t, told.Result, again.Result)
	require.Equal(t, "IDEMPOTENCY_KEY_REUSED", command(conn, "1b", `{"id": "1b", "key": "tell-1", "message": {"text": "another"}}`).Problem.Code)
	require.NotNil(t, command(conn, "2", `{"id": "2", "pause": {"no": 1}}`).Problem, "a field that does not exist")
	require.NotNil(t, command(conn, "3", `{"id": "3"}`).Problem, "nothing to do")
	require.NotNil(t, command(conn, "", `nonsense`).Problem)

	// A token for reading watches, and may do nothing.
	reading, err := r.user.Tokens.CreateToken(t.Context(), &deckhandv1.CreateTokenRequest{
		Kind: deckhandv1.TokenKind_TOKEN_KIND_USER, Name: "watcher", ReadOnly: true,
	})
	require.NoError(t, err)
	viewer := dial(reading.GetSecret(), "?after="+first.Cursor)
	refused := command(viewer, "4", `{"id": "4", "message": {"text": "stop"}}`)
	require.NotNil(t, refused.Problem)
	require.Equal(t, "AGENT_002", refused.Problem.Code)

	r.apply("other", asking("other", "tools: [shell_exec]"))
	_, _, elsewhere := r.park("other", "shell_exec", `{"command":"rm -rf other"}`)
	wrong := command(conn, "5", fmt.Sprintf(`{"id": "5", "approve": {"itemId": %q, "shownDigest": %q}}`, elsewhere.GetId(), elsewhere.GetShownDigest()))
	require.NotNil(t, wrong.Problem)
	require.Contains(t, wrong.Problem.Detail, "another task")
	approved := command(conn, "6", fmt.Sprintf(`{"id": "6", "approve": {"itemId": %q, "shownDigest": %q}}`, item.GetId(), r.inboxItem(item.GetId()).GetShownDigest()))
	require.Nil(t, approved.Problem, "%+v", approved.Problem)
	require.Equal(t, deckhandv1.InboxState_INBOX_STATE_ANSWERED, r.inboxItem(item.GetId()).GetState())

	paused := command(conn, "7", `{"id": "7", "pause": {"reason": "a test"}}`)
	require.Nil(t, paused.Problem, "%+v", paused.Problem)
	require.Equal(t, deckhandv1.TaskState_TASK_STATE_PAUSED, r.task(task.GetId()).GetState())
	require.Nil(t, command(conn, "8", `{"id": "8", "resume": {}}`).Problem)

	r.cancel(task.GetId())
	for {
		_, _, err := conn.Read(t.Context())
		if err != nil {
			require.Equal(t, websocket.StatusNormalClosure, websocket.CloseStatus(err), "%v", err)
			break
		}
	}
	res, body := restCall(t, http.MethodGet, r.URL()+"/v1/tasks/"+task.GetId()+"/updates", r.AdminToken, nil, nil)
	require.Equal(t, http.StatusUpgradeRequired, res.StatusCode)
	problem(t, res, body)
	// Another site's page cannot open it with the browser's cookie.
	_, status, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(r.URL(), "http")+"/v1/tasks/"+task.GetId()+"/updates",
		&websocket.DialOptions{HTTPHeader: http.Header{"Cookie": {login(t, r.Hub, r.AdminToken)}, "Origin": {"https://evil.example"}}})
	require.Error(t, err)
	require.Equal(t, http.StatusForbidden, status.StatusCode)
}
