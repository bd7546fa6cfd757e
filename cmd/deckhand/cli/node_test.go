package cli_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// One command enrols a machine.
func TestAJoinTokenComesWithTheCommandToUseItWith(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	got := h.run(t, "node", "token", "--ttl", "10m", "--label", "zone=eu", "--label", "disk=ssd")
	require.Equal(t, 0, got.code, got.stderr)
	require.Equal(t, "dhj_secret.ca\n", got.stdout)
	require.Equal(t, "valid once, until 2026-01-02T03:04:05Z; on the new machine run:\n"+
		"  curl -fsSL "+h.url+"/install/node | DECKHAND_HUB_URL="+h.url+" DECKHAND_JOIN_TOKEN=dhj_secret.ca sudo --preserve-env=DECKHAND_HUB_URL,DECKHAND_JOIN_TOKEN sh\n", got.stderr)
	request, ok := h.last["CreateJoinTokenRequest"].(*deckhandv1.CreateJoinTokenRequest)
	require.True(t, ok)
	require.Equal(t, 10*time.Minute, request.GetTtl().AsDuration())
	require.Equal(t, map[string]string{"zone": "eu", "disk": "ssd"}, request.GetLabels())

	asJSON := h.run(t, "node", "token", "-o", "jsonl")
	require.Equal(t, `{"token":"dhj_secret.ca","expiresAt":"2026-01-02T03:04:05Z"}`+"\n", asJSON.stdout)
	require.Equal(t, 2, h.run(t, "node", "token", "--ttl", "1000h").code)
}

func TestNodesAreListedAndShown(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.nodes = []*deckhandv1.Node{{
		Id: "node_1", Name: "web-1", Status: "connected", Runtimes: []string{"runc", "runsc"},
		Labels: map[string]string{"zone": "eu", "a": "b"}, Version: "0.1.0",
	}}
	require.Equal(t, `NAME   STATUS     WORK  SEEN  RUNTIMES    LABELS       VERSION
web-1  connected  -     -     runc,runsc  a=b,zone=eu  0.1.0
`, h.run(t, "node", "list").stdout)
	require.Equal(t, "web-1\n", h.run(t, "node", "list", "-o", "name").stdout)
	require.Regexp(t, `(?m)^id +node_1$`, h.run(t, "node", "show", "web-1").stdout)
}
