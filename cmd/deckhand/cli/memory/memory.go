// Package memory is the command "deckhand memory": what agents are to know in later runs.
package memory

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Command returns the command "deckhand memory".
func Command(e *env.Env) *cobra.Command {
	cmd := env.Group("memory", "Show and change what agents remember", `
An entry has a type, a key and a value, and belongs to a user, a team, an agent, a workspace
or the organisation, which says who reads it. Runs are told the entries that fit their goal,
the preferences of their user, and the standing instructions (type instruction) of their
user, teams and organisation. What agents stored is listed with --source agent.
`, `
deckhand memory set fact "staging database" "db-2.staging.example.com, port 5433"
deckhand memory set instruction "commit messages" "Write commit messages in English." --scope organisation
deckhand memory set preference language German
deckhand memory list --source agent --unconfirmed
deckhand memory search "where is the staging database"
`)
	cmd.AddCommand(setCommand(e), getCommand(e), listCommand(e), searchCommand(e), historyCommand(e), deleteCommand(e), restoreCommand(e),
		confirmCommand(e), exportCommand(e), importCommand(e), purgeCommand(e))
	return cmd
}

var scopeKinds = map[string]deckhandv1.ScopeKind{
	"user": deckhandv1.ScopeKind_SCOPE_KIND_USER, "team": deckhandv1.ScopeKind_SCOPE_KIND_TEAM,
	"organisation": deckhandv1.ScopeKind_SCOPE_KIND_ORGANISATION, "agent": deckhandv1.ScopeKind_SCOPE_KIND_AGENT,
	"workspace": deckhandv1.ScopeKind_SCOPE_KIND_WORKSPACE,
}

// scopeHelp describes the flag --scope.
const scopeHelp = "whose it is: user, organisation, team:NAME, agent:NAME or workspace:JAIL"

// scopeOf reads the flag --scope; nil for none.
func scopeOf(cmd *cobra.Command, text string) (*deckhandv1.Scope, error) {
	if text == "" {
		return nil, nil
	}
	name, id, _ := strings.Cut(text, ":")
	kind, found := scopeKinds[name]
	if !found {
		return nil, env.Usage(cmd, "--scope is %q, and is to be user, organisation, team:NAME, agent:NAME or workspace:JAIL", text)
	}
	return &deckhandv1.Scope{Kind: kind, Id: id}, nil
}

func typeOf(cmd *cobra.Command, name string) (deckhandv1.MemoryType, error) {
	value, found := deckhandv1.MemoryType_value["MEMORY_TYPE_"+strings.ToUpper(name)]
	if !found || value == 0 {
		return 0, env.Usage(cmd, "the type is %q, and is to be preference, fact, instruction, selector, workflow or statistic", name)
	}
	return deckhandv1.MemoryType(value), nil
}

func typesOf(cmd *cobra.Command, names []string) (out []deckhandv1.MemoryType, err error) {
	for _, name := range names {
		one, err := typeOf(cmd, name)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// valueOf reads a value: JSON where the text is some, and otherwise the text.
func valueOf(text string) *structpb.Value {
	out := &structpb.Value{}
	if trimmed := strings.TrimSpace(text); json.Valid([]byte(trimmed)) && out.UnmarshalJSON([]byte(trimmed)) == nil {
		return out
	}
	return structpb.NewStringValue(text)
}

type entry = *deckhandv1.Memory

func owner(m entry) string {
	kind := output.EnumName(m.GetScope().GetKind())
	if m.GetScopeName() != "" && kind != "organisation" {
		kind += " " + m.GetScopeName()
	}
	if m.GetOnlyFor() != "" {
		kind += ", for " + m.GetOnlyFor()
	}
	return kind
}

func source(m entry) string {
	s := m.GetSource()
	name := s.GetUser()
	if s.GetKind() == deckhandv1.MemorySourceKind_MEMORY_SOURCE_KIND_AGENT {
		name = "agent " + s.GetAgentName()
	}
	switch {
	case m.GetUntrusted():
		return name + ", untrusted"
	case m.GetConfirmedBy() == "":
		return name + ", not confirmed"
	}
	return name
}

func noun(e *env.Env) output.Noun[entry] {
	return output.Noun[entry]{
		Name: entry.GetId,
		Columns: []output.Column[entry]{
			{Header: "id", Value: entry.GetId},
			{Header: "type", Value: func(m entry) string { return output.EnumName(m.GetType()) }},
			{Header: "key", Value: entry.GetKey},
			{Header: "value", Value: func(m entry) string { return output.Shorten(oneLine(output.Text(m.GetValue())), 60) }},
			{Header: "of", Value: owner},
			{Header: "by", Value: source},
			{Header: "age", Value: func(m entry) string { return e.Age(m.GetUpdatedAt()) }},
			{Header: "version", Value: func(m entry) string { return fmt.Sprint(m.GetVersion()) }, Wide: true},
			{Header: "uses", Value: func(m entry) string { return fmt.Sprint(m.GetUses()) }, Wide: true},
		},
	}
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
