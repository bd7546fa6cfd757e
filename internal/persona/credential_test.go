package persona_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/persona"
)

const before = "---\nname: a\ndescription: b\nprovider: script\nscript: a.yaml\ntools: []\nlimits: {iterations: 50}\n"

// What is wrong with credentials, and what to write.
func TestCredentialsAreCheckedLineByLine(t *testing.T) {
	t.Parallel()
	_, err := persona.Parse("bad.md", []byte(before+`credentials:
  - GitHub
  - {repositories: [acme/web]}
  - name: github
    repositories: [acme, acme/.., "acme/web web"]
    permissions: {Contents: write, pulls: all}
    push: [heads/main, "refs/heads/x create update"]
  - github
workspace: {git: {url: "http://user:secret@github.com/acme/web", ref: "-x", credential: other, depth: 0}}
---
x`), known)
	require.EqualError(t, err, strings.TrimSpace(`
bad.md:9: credentials is "GitHub": use a credential's name as `+"`deckhand credential list`"+` shows it
bad.md:10: name is missing: write name: and the name of a credential, as `+"`deckhand credential list`"+` shows it
bad.md:12: credentials.repositories has "acme": write OWNER/NAME, such as acme/web
bad.md:12: credentials.repositories has "acme/..": write OWNER/NAME, such as acme/web
bad.md:12: credentials.repositories has "acme/web web": write OWNER/NAME, such as acme/web
bad.md:13: credentials.permissions has "Contents", which is no name of a permission: use lower-case letters and _, such as pull_requests
bad.md:13: credentials.permissions.pulls is "all": write one of read, write, admin
bad.md:14: credentials.push: the rule for pushes "heads/main" is not a reference and its rights: write it like "refs/heads/deckhand/* create,update"
bad.md:14: credentials.push: the rule for pushes "refs/heads/x create update" is not a reference and its rights: write it like "refs/heads/deckhand/* create,update"
bad.md:15: credentials has "github" twice: keep one
bad.md:16: workspace.git.url is "http://user:secret@github.com/acme/web": write the https address of a repository without a password, such as https://github.com/acme/web.git
bad.md:16: workspace.git.ref is "-x": write a branch, a tag or a commit, such as main
bad.md:16: workspace.git.depth must be a whole number from 1 to 1000000
bad.md:16: workspace.git.credential is "other", which credentials does not list: add it there, or remove it here
`))
}

func TestRulesByMethodAndPathAreForOneHost(t *testing.T) {
	t.Parallel()
	for entry, says := range map[string]string{
		`{host: "*.example.com", http: ["allow GET /"]}`:                      "http needs one host",
		`{host: 10.1.0.0/16, http: ["allow GET /"]}`:                          "http needs one host",
		`{host: a.example, methods: [GET], http: ["allow GET /"]}`:            "write the methods into http",
		`{host: a.example, http: ["permit GET /"]}`:                           "neither allow, deny nor tool",
		`{host: a.example, http: ["allow GET"]}`:                              "has no path",
		`{host: a.example, http: ["allow get /"]}`:                            "write GET instead of get",
		`{host: a.example, http: ["allow GET repos"]}`:                        "does not begin with a slash",
		`{host: a.example, http: ["tool POST /repos"]}`:                       "write it like",
		`{preset: git, http: ["allow GET /"]}`:                                "a preset with more than read_only",
		`{host: a.example, http: ["tool http_post POST,PUT /x", "deny * /"]}`: "",
	} {
		_, err := persona.Parse("a.md", []byte(before+"egress:\n  allow:\n    - "+entry+"\n---\nx"), known)
		if says == "" {
			require.NoError(t, err, entry)
			continue
		}
		require.ErrorContains(t, err, says, entry)
	}
}
