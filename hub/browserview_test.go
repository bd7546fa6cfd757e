package hub_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// Who reads a task may watch its browser and sees who has it; only who steers the task takes it
// over, while it runs and has one, and never in review mode.
func TestOnlyThoseWhoSteerATaskTakeItsBrowserOver(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
	do(t, r.user.Organisations.SetTaskSharing, &deckhandv1.SetTaskSharingRequest{Shared: true})
	vic := r.Client(t, userToken(t, openStore(t, r.Hub), auth.Operators, "vic", "viewer"))
	// asks returns what is said of a browser, and then of the wish to have it.
	asks := func(client *sdk.Client, taskID string) (first *deckhandv1.BrowserStatus, problem string) {
		t.Helper()
		stream, err := client.Browsers.WatchBrowser(t.Context())
		require.NoError(t, err)
		require.NoError(t, stream.Send(&deckhandv1.WatchBrowserRequest{Message: &deckhandv1.WatchBrowserRequest_Open_{Open: &deckhandv1.WatchBrowserRequest_Open{TaskId: taskID}}}))
		res, err := stream.Receive()
		require.NoError(t, err)
		require.NoError(t, stream.Send(&deckhandv1.WatchBrowserRequest{Message: &deckhandv1.WatchBrowserRequest_TakeOver_{TakeOver: &deckhandv1.WatchBrowserRequest_TakeOver{}}}))
		for said := res.GetStatus(); problem == ""; {
			require.False(t, said.GetYours())
			res, err := stream.Receive()
			require.NoError(t, err)
			said, problem = res.GetStatus(), res.GetStatus().GetProblem()
		}
		require.NoError(t, stream.CloseRequest())
		require.NoError(t, stream.CloseResponse())
		return res.GetStatus(), problem
	}
	walker := r.submit("walker")
	r.begin(walker.GetId(), 1)
	status, problem := asks(r.user, walker.GetId())
	require.False(t, status.GetRunning())
	require.Contains(t, problem, "the task has no browser that runs")
	_, problem = asks(vic, walker.GetId())
	require.Contains(t, problem, "ask them or an administrator")

	r.apply("careful", strings.Replace(scripted("careful"), "limits:", "mode: review\nlimits:", 1))
	careful := r.submit("careful")
	r.begin(careful.GetId(), 1)
	_, problem = asks(r.user, careful.GetId())
	require.Contains(t, problem, "in review mode")

	r.exec(fmt.Sprintf(`INSERT INTO browser_takeovers (task_id, org_id, holder, user_id, user_name, until_at)
		VALUES ('%s', '%s', 'hold_1', 'user_1', 'ada', now() + interval '1 minute')`, walker.GetId(), auth.Operators))
	status, _ = asks(vic, walker.GetId())
	require.Equal(t, "ada", status.GetTakenBy())
	r.exec(`UPDATE browser_takeovers SET until_at = now() - interval '1 second'`)
	status, _ = asks(vic, walker.GetId())
	require.Empty(t, status.GetTakenBy(), "the hub that had it has died")
	// That is in the history, once, although nobody has given it back.
	waittest.Until(t, time.Minute, "the end of the take-over in the history", func() bool {
		n := 0
		for _, e := range r.events(walker.GetId(), false) {
			if e.GetType() == string(eventkind.BrowserGiven) {
				require.Equal(t, "its hub ended", e.GetPayload().GetFields()["reason"].GetStringValue())
				n++
			}
		}
		return n == 1
	})

	// Others' tasks, and tokens that only read.
	bob := r.Client(t, userToken(t, openStore(t, r.Hub), auth.Operators, "bob", "basic"))
	_, problem = asks(bob, walker.GetId())
	require.Contains(t, problem, "ask them or an administrator")
	reads, err := r.user.Tokens.CreateToken(t.Context(), &deckhandv1.CreateTokenRequest{Kind: deckhandv1.TokenKind_TOKEN_KIND_USER, Name: "reads", ReadOnly: true})
	require.NoError(t, err)
	_, problem = asks(r.Client(t, reads.GetSecret()), walker.GetId())
	require.Contains(t, problem, "you may only look")
}

// A task that waits for a person has its workspace frozen, and its browser with it: that is said,
// and nobody takes it over.
func TestAFrozenBrowserIsNotTakenOver(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
	r.apply("asker", asking("asker", "tools: [shell_exec]"))
	waiting, _, _ := r.park("asker", "shell_exec", `{"command":"rm -rf other"}`)
	stream, err := r.user.Browsers.WatchBrowser(t.Context())
	require.NoError(t, err)
	require.NoError(t, stream.Send(&deckhandv1.WatchBrowserRequest{Message: &deckhandv1.WatchBrowserRequest_Open_{Open: &deckhandv1.WatchBrowserRequest_Open{TaskId: waiting.GetId()}}}))
	res, err := stream.Receive()
	require.NoError(t, err)
	require.Contains(t, res.GetStatus().GetProblem(), "its workspace is frozen")
	require.NoError(t, stream.Send(&deckhandv1.WatchBrowserRequest{Message: &deckhandv1.WatchBrowserRequest_TakeOver_{TakeOver: &deckhandv1.WatchBrowserRequest_TakeOver{}}}))
	res, err = stream.Receive()
	require.NoError(t, err)
	require.Contains(t, res.GetStatus().GetProblem(), "take its browser over once it runs")
	require.False(t, res.GetStatus().GetWaiting())
	require.NoError(t, stream.CloseRequest())
	require.NoError(t, stream.CloseResponse())
}

// Who reads a task reads what was recorded of its browser. One whose node has gone says so, and others
// see nothing.
func TestRecordingsAreReadByThoseWhoReadTheTask(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Start(t, hubtest.Config(t)), nil)
	walker := r.submit("walker")
	read := func(client *sdk.Client) (frames []*deckhandv1.BrowserFrame, err error) {
		stream, err := client.Browsers.ReadBrowserRecording(t.Context(), &deckhandv1.ReadBrowserRecordingRequest{TaskId: walker.GetId()})
		require.NoError(t, err)
		for stream.Receive() {
			frames = append(frames, stream.Msg().GetFrame())
		}
		require.NoError(t, stream.Close())
		return frames, stream.Err()
	}
	frames, err := read(r.user)
	require.NoError(t, err)
	require.Empty(t, frames)
	r.exec(fmt.Sprintf(`INSERT INTO browser_recordings (task_id, exec_id, org_id, node_id) VALUES ('%s', 'browser_x', '%s', 'node_gone')`, walker.GetId(), auth.Operators))
	frames, err = read(r.user)
	require.NoError(t, err)
	require.Len(t, frames, 1)
	require.Contains(t, frames[0].GetProblem(), "node_gone")
	bob := r.Client(t, userToken(t, openStore(t, r.Hub), auth.Operators, "bob", "basic"))
	_, err = read(bob)
	require.ErrorContains(t, err, "no task")
}
