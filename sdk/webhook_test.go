package sdk_test

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/sdk"
)

func TestOnlyWhatTheHubSignedNowIsAWebhook(t *testing.T) {
	t.Parallel()
	secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))
	body := []byte(`{"specversion":"1.0","id":"n_1","type":"agent.failed","subject":"task_1","time":"2026-11-22T10:00:00Z","data":{"summary":"x"}}`)
	signed := func(at time.Time) http.Header {
		signer, err := standardwebhooks.NewWebhook(secret)
		require.NoError(t, err)
		signature, err := signer.Sign("msg_1", at, body)
		require.NoError(t, err)
		return http.Header{"Webhook-Id": {"msg_1"}, "Webhook-Timestamp": {strconv.FormatInt(at.Unix(), 10)}, "Webhook-Signature": {"v1,AAAA " + signature}}
	}
	now := time.Now()
	event, err := sdk.VerifyWebhook(secret, signed(now), body)
	require.NoError(t, err)
	require.Equal(t, "agent.failed", event.Type)
	require.Equal(t, "task_1", event.Subject)
	require.JSONEq(t, `{"summary":"x"}`, string(event.Data))

	for name, refused := range map[string]func() error{
		"another body":   func() error { _, err := sdk.VerifyWebhook(secret, signed(now), append(body, ' ')); return err },
		"another secret": func() error { _, err := sdk.VerifyWebhook("whsec_AAAA", signed(now), body); return err },
		"no secret":      func() error { _, err := sdk.VerifyWebhook("whsec_?", signed(now), body); return err },
		"an old one":     func() error { _, err := sdk.VerifyWebhook(secret, signed(now.Add(-6*time.Minute)), body); return err },
		"no headers":     func() error { _, err := sdk.VerifyWebhook(secret, http.Header{}, body); return err },
	} {
		require.Error(t, refused(), name)
	}
}
