package docs

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
)

// incident makes what is compromised in docs/incident.md: a user, a credential, a trigger, a
// destination, and a node of its own. What it returns releases what was stopped.
func (s *stage) incident() (end func()) {
	for file, text := range map[string]string{"token.txt": "another-token-4hw2\n", "password.txt": "a-new-password-of-carols\n"} {
		require.NoError(s.T, os.WriteFile(filepath.Join(s.dir, file), []byte(text), 0o600))
	}
	s.CLI(0, "user", "create", "carol", "--role", "basic")
	s.CLI(0, "credential", "create", "crm", "--kind", "bearer", "--host", "crm.example.com", "--agent", "log-triage", "--value-file", filepath.Join(s.dir, "token.txt"))
	s.CLI(0, "trigger", "create", "deploys", "--agent", "log-triage", "--webhook", "github")
	s.CLI(0, "destination", "create", "pager", "--webhook", "https://pager.example.com/deckhand")
	data, containerd := jailtest.Dir(s.T), jailtest.Containerd(s.T)
	namespace := harness.NamespaceOf(data)
	s.T.Cleanup(func() {
		jailtest.RemoveAll(s.T, jail.Config{DataDir: data, Containerd: containerd, Namespace: namespace})
	})
	node := harness.Start(s.T, []string{"DECKHAND_JOIN_TOKEN=" + strings.TrimSpace(s.CLI(0, "node", "token").Out)}, harness.Binary(s.T, "deckhand-node"),
		"--name", "web-2", "--data-dir", data, "--hub-url", s.URL(), "--containerd", containerd, "--containerd-namespace", namespace)
	waittest.Until(s.T, time.Minute, "the second node to be linked", func() bool { return strings.Contains(node.Output.String(), "linked to the hub") })
	s.CLI(0, "node", "drain", "web-2", "--reason", "for the docs") // no task begins there
	return func() {
		for _, hold := range strings.Fields(s.CLI(0, "hold", "list", "-o", "name").Out) {
			s.CLI(0, "hold", "release", hold)
		}
		s.CLI(0, "token", "limits", "--max-ttl", "0")
		s.CLI(0, "trigger", "delete", "deploys")
		s.CLI(0, "destination", "delete", "pager")
		node.Kill()
	}
}
