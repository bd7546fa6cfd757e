package secretcheck_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/secretcheck"
)

func TestWhatSomebodyMadeUpIsWeak(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{
		"", "short1", "messages", "max_completion_tokens", "maxCompletionTokens", "MaxCompletionTokens", "confidential", "correct-horse-battery-staple",
		"https://evil.example/x9Zk2", "aaaaaaaaaaaaaaaa1", "1234567890123456", "/workspace/.env-file", "KUBERNETES_SERVICE_HOST",
	} {
		require.NotEmpty(t, secretcheck.Weak(secret), secret)
	}
}

func TestWhatAMachineDrewIsNotWeak(t *testing.T) {
	t.Parallel()
	weak, all := 0, 0
	for range 2000 {
		data := make([]byte, 20)
		_, err := rand.Read(data)
		require.NoError(t, err)
		for _, secret := range []string{
			hex.EncodeToString(data), base64.StdEncoding.EncodeToString(data), base64.RawURLEncoding.EncodeToString(data), ident.Secret("dhk"),
			"sk-ant-api03-" + base64.RawURLEncoding.EncodeToString(data),
		} {
			all++
			if secretcheck.Weak(secret) != "" {
				weak++
			}
		}
	}
	require.Less(t, weak*500, all, "of those without a digit some read like words")
}
