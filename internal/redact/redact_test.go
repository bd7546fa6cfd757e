package redact_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/redact"
)

// O4: known values and known shapes are masked wherever they stand.
func TestSecretsAreMasked(t *testing.T) {
	var r redact.Redactor
	r.Add("correct-horse-battery", "short", "correct-horse")
	token := ident.Secret("dhu")
	for _, secret := range []string{
		"correct-horse-battery", token, "sk-ant-api03-AbCdEf0123456789", "ghp_" + strings.Repeat("a", 36),
		"-----BEGIN EC PRIVATE KEY-----\nabc\n-----END EC PRIVATE KEY-----",
	} {
		out := r.String("before " + secret + " after")
		require.Equal(t, "before [redacted] after", out)
	}
	for _, harmless := range []string{
		"a short word stays", "disk-usage-report-2026-11-20.txt", "task-12345678901234567890123456789",
		"grep -r 'BEGIN RSA PRIVATE KEY' /etc && echo '-----BEGIN PRIVATE KEY-----' found", "\uFFFDtext",
	} {
		require.Equal(t, harmless, r.String(harmless))
	}
	require.Equal(t, "cut [redacted]", r.String("cut -----BEGIN RSA PRIVATE KEY-----\n"+strings.Repeat("QUJD", 20)+"\n"), "a key without its end")
	require.Equal(t, "a\uFFFDb\uFFFD", r.String("a\x00b\xff"), "what a database does not take")
	require.Equal(t,
		map[string]any{"k": []any{"x [redacted]", 1.5, nil, map[string]any{"[redacted]": true}}},
		r.Map(map[string]any{"k": []any{"x correct-horse", 1.5, nil, map[string]any{token: true}}}))

	var b strings.Builder
	n, err := r.Writer(&b).Write([]byte("key=" + token + "\n"))
	require.NoError(t, err)
	require.Equal(t, len("key=")+len(token)+1, n)
	require.Equal(t, "key=[redacted]\n", b.String())

	var nobody *redact.Redactor
	require.Equal(t, "[redacted]", nobody.String(token))
}
