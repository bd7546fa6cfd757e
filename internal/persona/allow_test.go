package persona_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/allowlist"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

// A host is allowed by one more rule, and nothing else of the file changes.
func TestAHostIsAddedToTheFile(t *testing.T) {
	t.Parallel()
	target := func(text string) allowlist.Target {
		out, err := allowlist.ParseTarget(text, 0)
		require.NoError(t, err)
		return out
	}
	for name, c := range map[string]struct{ front, host, want string }{
		"without egress":    {"name: a\ntools: [x] # all\n", "api.example.com:443", "name: a\ntools: [x] # all\negress:\n  allow: [\"api.example.com\"]\n"},
		"flow list":         {"egress:\n  allow: [a.example, \"b.example\"]  # why\nname: a\n", "c.example:8443", "egress:\n  allow: [\"c.example:8443\", a.example, \"b.example\"]  # why\nname: a\n"},
		"empty flow list":   {"egress: {allow: []}\n", "c.example:80", "egress: {allow: [\"c.example\"]}\n"},
		"flow mapping":      {"egress: {presets: [git]}\n", "c.example:80", "egress: {allow: [\"c.example\"], presets: [git]}\n"},
		"block list":        {"egress:\n    # hosts\n    allow:\n        - a.example # one\n    presets: [git]\n", "[2001:db8::1]:443", "egress:\n    # hosts\n    allow:\n        - a.example # one\n        - \"2001:db8::1\"\n    presets: [git]\n"},
		"unindented list":   {"egress:\n  allow:\n  - a.example\nname: a\n", "b.example:443", "egress:\n  allow:\n  - a.example\n  - \"b.example\"\nname: a\n"},
		"mapping last":      {"egress:\n  allow:\n    - host: a.example\n      ports: [8080]\nname: a\n", "b.example:443", "egress:\n  allow:\n    - \"b.example\"\n    - host: a.example\n      ports: [8080]\nname: a\n"},
		"block without":     {"egress:\n  presets: [git]\nname: é\n", "b.example:443", "egress:\n  allow: [\"b.example\"]\n  presets: [git]\nname: é\n"},
		"before a letter":   {"x: [é, {y: ü}]\negress: {tcp: [\"db.example:5432\"], allow: [é.example]}\n", "b.example:443", ""},
		"allowed already":   {"egress: {allow: [\"*.example\"]}\n", "b.example:443", "egress: {allow: [\"*.example\"]}\n"},
		"windows":           {"name: a\r\negress:\r\n  allow:\r\n    - a.example\r\n", "b.example:443", "name: a\r\negress:\r\n  allow:\r\n    - a.example\r\n    - \"b.example\"\r\n"},
		"alias":             {"a: &e {allow: [a.example]}\negress: *e\n", "b.example:443", ""},
		"nothing below":     {"egress:\n", "b.example:443", ""},
		"another port":      {"egress: {allow: [\"b.example:8080\"]}\n", "b.example:9090", "egress: {allow: [\"b.example:9090\", \"b.example:8080\"]}\n"},
		"text in the value": {"egress: {allow: [\"a.example\"]}\nnote: \"egress: {allow: [\"\n", "b.example:443", "egress: {allow: [\"b.example\", \"a.example\"]}\nnote: \"egress: {allow: [\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			end := "\n"
			if strings.Contains(c.front, "\r\n") {
				end = "\r\n"
			}
			file := func(front string) string { return "---" + end + front + "---" + end + "Do it.\n---\n" }
			got, err := persona.Allow(file(c.front), target(c.host))
			if c.want == "" {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, file(c.want), got)
		})
	}
	_, err := persona.Allow("no front matter", target("a.example:443"))
	require.Error(t, err)
}
