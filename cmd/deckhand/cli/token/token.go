// Package token is the command "deckhand token": it manages API tokens and
// their limits.
package token

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Command returns the command "deckhand token".
func Command(e *env.Env) *cobra.Command {
	cmd := env.Group("token", "Manage API tokens", `
A token lets a program call the hub as its user, with all of the user's rights or
fewer: a lower role, reading only, some services only. A worker's token does a
worker's part and nothing else. Nodes join with tokens of "deckhand node token".
`, `
deckhand token create ci --role basic --service TaskService --service EventService
deckhand token list
deckhand token revoke token_3q9
`)
	cmd.AddCommand(createCommand(e), listCommand(e), revokeCommand(e), limitsCommand(e))
	return cmd
}

func noun(e *env.Env) output.Noun[*deckhandv1.Token] {
	return output.Noun[*deckhandv1.Token]{
		Name: (*deckhandv1.Token).GetId,
		Columns: []output.Column[*deckhandv1.Token]{
			{Header: "id", Value: (*deckhandv1.Token).GetId},
			{Header: "name", Value: (*deckhandv1.Token).GetName, Max: 60},
			{Header: "kind", Value: func(x *deckhandv1.Token) string { return output.EnumName(x.GetKind()) }},
			{Header: "user", Value: (*deckhandv1.Token).GetUserName},
			{Header: "may", Value: func(x *deckhandv1.Token) string {
				may := x.GetServices()
				if x.GetReadOnly() {
					may = append([]string{"read"}, may...)
				}
				if x.GetMcp() {
					may = append(may, "MCP only")
				}
				if x.GetDecide() {
					may = append(may, "decide")
				}
				if x.GetRole() != "" {
					may = append([]string{x.GetRole()}, may...)
				}
				for _, pool := range x.GetPools() {
					may = append(may, "pool "+pool)
				}
				return strings.Join(may, ", ")
			}, Max: 60},
			{Header: "until", Value: func(x *deckhandv1.Token) string { return output.Moment(x.GetExpiresAt()) }},
			{Header: "used", Value: func(x *deckhandv1.Token) string { return output.Moment(x.GetUsedAt()) }, Wide: true},
			{Header: "by", Value: (*deckhandv1.Token).GetCreatedBy, Wide: true},
			{Header: "age", Value: func(x *deckhandv1.Token) string { return e.Age(x.GetCreatedAt()) }, Wide: true},
		},
	}
}
