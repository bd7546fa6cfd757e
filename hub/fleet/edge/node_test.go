package edge_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/hub/fleet/edge"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/jointoken"
	"github.com/deckhand-sh/deckhand/node/daemon"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// A whole node, from its join token to a command's output.
func TestAWholeNodeRunsACommandInAJail(t *testing.T) {
	h := newHub(t)
	jails := jailtest.Config(t)
	t.Cleanup(func() { jailtest.RemoveAll(t, jails) })
	log := newLines()
	start := func(cfg daemon.Config) (*daemon.Daemon, *edge.Link) {
		cfg.DataDir, cfg.Containerd, cfg.Namespace, cfg.InitPath = jails.DataDir, jails.Containerd, jails.Namespace, jails.InitPath
		cfg.Labels, cfg.Log = daemon.Labels{"zone": "a"}, log.logger()
		d, err := cfg.Complete(t.Context())
		require.NoError(t, err)
		t.Cleanup(d.Stop)
		require.NoError(t, d.Start(context.WithoutCancel(t.Context())))
		require.Equal(t, change{d.NodeID(), true}, within(t, h.changes, "the node to connect"))
		link, err := h.Local(d.NodeID())
		require.NoError(t, err)
		return d, link
	}
	d, link := start(daemon.Config{
		HubURL: h.api.URL, JoinToken: config.Secret(jointoken.New(h.ca.Fingerprint()).Reveal()), Name: "machine",
	})
	hello := link.Hello()
	require.Contains(t, hello.GetRuntimes(), "runc")
	require.Positive(t, hello.GetMemoryBytes())
	require.Positive(t, hello.GetCpus())
	require.NotEmpty(t, hello.GetBootId())
	require.Equal(t, map[string]string{"zone": "a"}, hello.GetLabels())

	_, err := link.Jails().EnsureJail(t.Context(), &nodev1.EnsureJailRequest{Spec: jailtest.Spec("jail_1")})
	require.NoError(t, err)
	_, err = link.Files().WriteFile(t.Context(), &nodev1.WriteFileRequest{JailId: "jail_1", Path: "in.txt", Content: []byte("ahoy")})
	require.NoError(t, err)
	_, err = link.Exec().StartExec(t.Context(), &nodev1.StartExecRequest{Spec: &nodev1.ExecSpec{
		ExecId: "step_1", JailId: "jail_1", Argv: []string{"sh", "-c", "cat in.txt; exit 3"},
	}})
	require.NoError(t, err)
	ended, err := link.Exec().WaitExec(t.Context(), &nodev1.WaitExecRequest{ExecId: "step_1", Timeout: durationpb.New(patience)})
	require.NoError(t, err)
	require.Equal(t, nodev1.EndReason_END_REASON_EXITED, ended.GetExec().GetEndReason())
	require.Equal(t, int32(3), ended.GetExec().GetExitCode())
	require.Equal(t, "ahoy", readLog(t, link, "step_1"))

	// The daemon stops while a command runs; the next one finds it, and needs
	// neither token nor address.
	_, err = link.Exec().StartExec(t.Context(), &nodev1.StartExecRequest{Spec: &nodev1.ExecSpec{
		ExecId: "step_2", JailId: "jail_1", Argv: []string{"sh", "-c", "while [ ! -e go ]; do sleep 0.05; done; echo gone on"},
	}})
	require.NoError(t, err)
	d.Stop()
	require.NoError(t, d.Err())
	require.Equal(t, change{d.NodeID(), false}, within(t, h.changes, "the node to disconnect"))
	_, link = start(daemon.Config{})
	require.Len(t, link.Hello().GetJails(), 1)
	require.Len(t, link.Hello().GetExecs(), 1)
	require.Equal(t, "step_2", link.Hello().GetExecs()[0].GetExecId())
	_, err = link.Files().WriteFile(t.Context(), &nodev1.WriteFileRequest{JailId: "jail_1", Path: "go"})
	require.NoError(t, err)
	require.Equal(t, "gone on\n", readLog(t, link, "step_2"))
}

// readLog follows an exec's output to its end.
func readLog(t *testing.T, link *edge.Link, execID string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := link.Exec().ReadLog(ctx, &nodev1.ReadLogRequest{ExecId: execID, Follow: true})
	require.NoError(t, err)
	var out []byte
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return string(out)
		}
		require.NoError(t, err)
		out = append(out, part.GetData()...)
	}
}
