// Package policy is the command "deckhand policy": it checks, applies and
// replays the policy of what agents may do.
package policy

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Command returns the command "deckhand policy".
func Command(e *env.Env) *cobra.Command {
	cmd := env.Group("policy", "Manage policies (allow, ask, deny)", `
A policy is a YAML file of rules, of the organisation or of one agent. Each change
is a new version; a step says which rule of which version decided it.
`, `
deckhand policy show
deckhand policy test 'git push --force'
deckhand policy replay policy.yaml
deckhand policy apply policy.yaml
deckhand policy corpus
deckhand policy rules
`)
	cmd.AddCommand(showCommand(e), applyCommand(e), testCommand(e), replayCommand(e), corpusCommand(e), rulesCommand(e), revokeCommand(e))
	return cmd
}

// maxPolicy is how large a policy may be; the hub takes no more.
const maxPolicy = 1 << 20

func noun() output.Noun[*deckhandv1.Policy] {
	return output.Noun[*deckhandv1.Policy]{
		Name: func(x *deckhandv1.Policy) string { return fmt.Sprint(x.GetVersion()) },
		Columns: []output.Column[*deckhandv1.Policy]{
			{Header: "version", Value: func(x *deckhandv1.Policy) string { return fmt.Sprint(x.GetVersion()) }},
			{Header: "agent", Value: (*deckhandv1.Policy).GetAgentId},
			{Header: "by", Value: (*deckhandv1.Policy).GetCreatedBy},
			{Header: "at", Value: func(x *deckhandv1.Policy) string { return output.Moment(x.GetCreatedAt()) }},
		},
	}
}

// readPolicy returns a policy's text from a file, or from standard input.
func readPolicy(e *env.Env, file string) (string, error) {
	if file == "-" {
		data, err := env.ReadAll(e.In, maxPolicy)
		return string(data), err
	}
	data, err := env.ReadBounded(file, maxPolicy)
	return string(data), err
}
