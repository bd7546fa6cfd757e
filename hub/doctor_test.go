package hub_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// The doctor names credentials that end soon or have ended.
func TestTheDoctorNamesCredentialsThatExpire(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), output("done\n"))
	found := func() map[string]string {
		res, err := r.user.Diagnostics.Diagnose(t.Context(), &deckhandv1.DiagnoseRequest{})
		require.NoError(t, err)
		out := map[string]string{}
		for _, f := range res.GetFindings() {
			state := strings.ToLower(strings.TrimPrefix(f.GetState().String(), "FINDING_STATE_"))
			out[f.GetCheck()] = state + ": " + f.GetEvidence()
		}
		return out
	}
	require.Equal(t, "ok: none expires within 14 days", found()["credentials"])
	for _, name := range []string{"ends-soon", "has-ended", "lasts"} {
		do(t, r.user.Credentials.CreateCredential, &deckhandv1.CreateCredentialRequest{
			Name: name, Kind: "bearer", Hosts: []string{"api.example.com"}, Agents: []string{"*"}, Value: &deckhandv1.CredentialValue{Token: "dGhlIHdhbGs9k2Lq"},
		})
	}
	r.exec("UPDATE egress_credentials SET expires_at = now() + interval '3 days' WHERE name = 'ends-soon'")
	r.exec("UPDATE egress_credentials SET expires_at = now() - interval '3 days' WHERE name = 'has-ended'")
	r.exec("UPDATE egress_credentials SET refresh_sealed = '', refreshed_at = now() WHERE name = 'ends-soon'") // it is valid no longer for it
	now := found()
	require.Contains(t, now["credential ends-soon"], "warn: it expires at ")
	require.Contains(t, now["credential has-ended"], "fail: it expired at ")
	require.NotContains(t, now, "credential lasts")
}
