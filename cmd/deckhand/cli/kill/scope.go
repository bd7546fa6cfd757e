package kill

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// scopes are what the kill switch takes, as people write it.
var scopes = []struct {
	name  string
	scope deckhandv1.KillScope
}{
	{"task", deckhandv1.KillScope_KILL_SCOPE_TASK},
	{"agent", deckhandv1.KillScope_KILL_SCOPE_AGENT},
	{"trigger", deckhandv1.KillScope_KILL_SCOPE_TRIGGER},
	{"node", deckhandv1.KillScope_KILL_SCOPE_NODE},
	{"lineage", deckhandv1.KillScope_KILL_SCOPE_LINEAGE},
	{"org", deckhandv1.KillScope_KILL_SCOPE_ORGANISATION},
}

// ScopeName returns a scope as people write it.
func ScopeName(scope deckhandv1.KillScope) string {
	for _, known := range scopes {
		if known.scope == scope {
			return known.name
		}
	}
	return "unknown"
}

func scopeOf(cmd *cobra.Command, args []string) (deckhandv1.KillScope, error) {
	var names []string
	for _, known := range scopes {
		names = append(names, known.name)
		if known.name != args[0] {
			continue
		}
		if known.name == "org" && len(args) > 1 {
			return 0, env.Usage(cmd, "an organisation is killed without an ID: it is your own")
		}
		if known.name != "org" && len(args) < 2 {
			return 0, env.Usage(cmd, "ID is missing: which %s", known.name)
		}
		return known.scope, nil
	}
	return 0, env.Usage(cmd, "%q cannot be killed, give one of %s", args[0], strings.Join(names, ", "))
}
