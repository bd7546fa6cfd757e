// Package credential is the command "deckhand credential": it manages the credentials that
// are inserted into requests of agents' commands, tests them, and shows how they were used.
package credential

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Command returns the command "deckhand credential".
func Command(e *env.Env) *cobra.Command {
	cmd := env.Group("credential", "Manage credentials that agents use without having them", `
A credential is inserted into requests of an agent's commands on their way out of
the jail: into those to its hosts, with its methods and paths, of the agents that
may use it and whose personas list it. No command ever gets its value.
`, `
deckhand credential create github --kind github_app --app-id 123456 --repository 'acme/*' --permission contents=write --value-file app.pem --agent coder
deckhand credential test github
deckhand credential usage github
`)
	cmd.AddCommand(createCommand(e), listCommand(e), showCommand(e), updateCommand(e), rotateCommand(e), deleteCommand(e), testCommand(e), usageCommand(e))
	return cmd
}

func noun(e *env.Env) output.Noun[*deckhandv1.Credential] {
	joined := func(list []string, none string) string {
		if len(list) == 0 {
			return none
		}
		return strings.Join(list, ",")
	}
	return output.Noun[*deckhandv1.Credential]{
		Name: (*deckhandv1.Credential).GetName,
		Columns: []output.Column[*deckhandv1.Credential]{
			{Header: "name", Value: (*deckhandv1.Credential).GetName},
			{Header: "kind", Value: (*deckhandv1.Credential).GetKind},
			{Header: "hosts", Value: func(x *deckhandv1.Credential) string { return joined(x.GetHosts(), "-") }, Max: 50},
			{Header: "agents", Value: func(x *deckhandv1.Credential) string { return joined(x.GetAgents(), "none") }, Max: 40},
			{Header: "used", Value: func(x *deckhandv1.Credential) string { return e.Age(x.GetUsedAt()) }},
			{Header: "rotated", Value: func(x *deckhandv1.Credential) string { return e.Age(x.GetRotatedAt()) }},
			{Header: "expires", Value: func(x *deckhandv1.Credential) string { return output.Moment(x.GetExpiresAt()) }},
			{Header: "ports", Value: func(x *deckhandv1.Credential) string {
				if len(x.GetPorts()) == 0 {
					return "443"
				}
				return strings.Trim(strings.ReplaceAll(fmt.Sprint(x.GetPorts()), " ", ","), "[]")
			}, Wide: true},
			{Header: "methods", Value: func(x *deckhandv1.Credential) string { return joined(x.GetMethods(), "all") }, Wide: true},
			{Header: "paths", Value: func(x *deckhandv1.Credential) string { return joined(x.GetPaths(), "all") }, Wide: true},
			{Header: "by", Value: (*deckhandv1.Credential).GetCreatedBy, Wide: true},
			{Header: "private", Value: func(x *deckhandv1.Credential) string { return yes(x.GetPrivate()) }, Alone: true},
			{Header: "settings", Value: settings, Alone: true},
			{Header: "variable", Value: (*deckhandv1.Credential).GetVariable, Alone: true},
			{Header: "roots", Value: func(x *deckhandv1.Credential) string { return yes(x.GetRoots() != "") }, Alone: true},
			{Header: "value", Value: func(x *deckhandv1.Credential) string {
				if x.GetHeld() {
					return "stays in the hub"
				}
				return "stays in the hub; nodes get tokens that expire soon"
			}, Alone: true},
			{Header: "version", Value: (*deckhandv1.Credential).GetVersion, Alone: true},
			{Header: "created", Value: func(x *deckhandv1.Credential) string { return output.Moment(x.GetCreatedAt()) }, Alone: true},
			{Header: "rotated by", Value: (*deckhandv1.Credential).GetRotatedBy, Alone: true},
		},
	}
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// settings returns the settings that a credential has, on one line.
func settings(x *deckhandv1.Credential) string {
	s := x.GetSettings()
	var out []string
	add := func(name, value string) {
		if value != "" {
			out = append(out, name+"="+value)
		}
	}
	add("header", s.GetHeader())
	add("parameter", s.GetParameter())
	add("base_url", s.GetBaseUrl())
	add("api", s.GetApi())
	add("app_id", s.GetAppId())
	if s.GetInstallationId() != 0 {
		add("installation_id", fmt.Sprint(s.GetInstallationId()))
	}
	add("repositories", strings.Join(s.GetRepositories(), ","))
	var permissions []string
	for _, name := range slices.Sorted(maps.Keys(s.GetPermissions())) {
		permissions = append(permissions, name+":"+s.GetPermissions()[name])
	}
	add("permissions", strings.Join(permissions, ","))
	add("token_url", s.GetTokenUrl())
	add("client_id", s.GetClientId())
	add("scopes", strings.Join(s.GetScopes(), ","))
	add("audience", s.GetAudience())
	add("region", s.GetRegion())
	add("service", s.GetService())
	return strings.Join(out, " ")
}
