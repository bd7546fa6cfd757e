package hub_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// What one organisation stores as a secret, or tries to, is text to another: it
// changes nothing that the other sees, and tells nothing about the secret.
func TestASecretOfOneOrganisationIsTextOfAnother(t *testing.T) {
	t.Parallel()
	const key, goal = "token-9dk2-words-of-theirs", "what of token-9dk2-words-of-theirs and confidential?"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Authorization") != "Bearer "+key {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(server.Close)
	cfg := hubtest.Config(t)
	r := newRig(t, cfg, nil)
	made, err := r.user.Organisations.CreateOrganisation(t.Context(), connect.NewRequest(&deckhandv1.CreateOrganisationRequest{Name: "research"}))
	require.NoError(t, err)
	theirs := r.Client(t, made.Msg.GetToken())
	put := func(key string) error {
		_, err := theirs.Providers.ConnectProvider(t.Context(), connect.NewRequest(&deckhandv1.ConnectProviderRequest{Name: "vllm", Key: key, BaseUrl: server.URL}))
		return err
	}
	require.True(t, fault.Is(put("confidential"), fault.Invalid), "a word is no secret")
	require.Equal(t, fault.CredentialInvalid, fault.As(put("wrong-0123-wrong")).Code)
	require.NoError(t, put(key))

	task := r.submit("walker")
	_, err = r.say(task.GetId(), goal, "k1")
	require.NoError(t, err)
	said := func(tasks func(string) []*deckhandv1.Event, id string) string {
		var out strings.Builder
		for _, e := range tasks(id) {
			out.WriteString(e.String())
		}
		return out.String()
	}
	require.Contains(t, said(func(id string) []*deckhandv1.Event { return r.events(id, false) }, task.GetId()), goal)
	_, err = r.user.Tasks.PauseTask(t.Context(), connect.NewRequest(&deckhandv1.PauseTaskRequest{TaskId: task.GetId(), Reason: goal}))
	require.NoError(t, err)
	require.Contains(t, r.audited("task.paused")[0].GetReason(), goal)

	// In its own organisation it is masked, until it is disconnected.
	org := r.sql("SELECT id FROM organisations WHERE name = 'research'")
	require.Equal(t, "what of [redacted] and confidential?", cfg.Redact.Org(org).String(goal))
	_, err = theirs.Tasks.GetTask(t.Context(), connect.NewRequest(&deckhandv1.GetTaskRequest{TaskId: key}))
	require.ErrorContains(t, err, "[redacted]", "errors are masked too")
	_, err = r.user.Tasks.GetTask(t.Context(), connect.NewRequest(&deckhandv1.GetTaskRequest{TaskId: key}))
	require.ErrorContains(t, err, key)
	require.NoError(t, r.ReviewSecrets(t.Context()))
	require.True(t, cfg.Redact.Org(org).Knows([]byte(key)))
	_, err = theirs.Providers.DisconnectProvider(t.Context(), connect.NewRequest(&deckhandv1.DisconnectProviderRequest{Name: "vllm"}))
	require.NoError(t, err)
	require.NoError(t, r.ReviewSecrets(t.Context()))
	require.Equal(t, goal, cfg.Redact.Org(org).String(goal))
}
