package credential

import (
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func updateCommand(e *env.Env) *cobra.Command {
	given := &deckhandv1.CreateCredentialRequest{Settings: &deckhandv1.CredentialSettings{}}
	flags := &createFlags{}
	cmd := &cobra.Command{
		Use: "update NAME", Short: "Change the requests and agents that a credential is for",
		Long: `What no flag names stays as it is; a list is replaced as a whole, and an empty one ('')
removes it. The value stays, unless one is given. It must be given if the credential is to
be sent anywhere that it was not for: to a new host or port, by other certificates, to
another --base-url or --token-url, or into private networks.

Nodes forget what they had of it, and close the connections on which it was used.

` + valueHelp,
		Example: `deckhand credential update api --agent coder,reviewer --method GET
deckhand credential update api --host api.example.com,eu.example.com --value-file token.txt`,
		Args: env.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := flags.apply(cmd, given); err != nil {
				return err
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Credentials.GetCredential(cmd.Context(), &deckhandv1.GetCredentialRequest{Name: args[0]})
			if err != nil {
				return err
			}
			request := changed(cmd, res.GetCredential(), given)
			if flags.value.given() {
				if request.Value, request.ExpiresAt, err = flags.value.read(e, cmd, res.GetCredential().GetKind()); err != nil {
					return err
				}
			} else if request.ExpiresAt, err = flags.value.expiry(cmd); err != nil {
				return err
			}
			updated, err := client.Credentials.UpdateCredential(cmd.Context(), request)
			if err != nil {
				return err
			}
			return output.One(e.Printer(), noun(e), updated.GetCredential())
		},
	}
	flags.register(cmd, given)
	return cmd
}

// changed returns the request by which a credential becomes what the flags say.
func changed(cmd *cobra.Command, now *deckhandv1.Credential, given *deckhandv1.CreateCredentialRequest) *deckhandv1.UpdateCredentialRequest {
	s := &deckhandv1.CredentialSettings{}
	if now.GetSettings() != nil {
		s = proto.CloneOf(now.GetSettings())
	}
	request := &deckhandv1.UpdateCredentialRequest{
		Name: now.GetName(), Version: now.GetVersion(), Hosts: now.GetHosts(), Ports: now.GetPorts(), Methods: now.GetMethods(), Paths: now.GetPaths(),
		Private: now.GetPrivate(), Agents: now.GetAgents(), Settings: s, Variable: now.GetVariable(), Roots: now.GetRoots(),
	}
	to := given.GetSettings()
	for flag, take := range map[string]func(){
		"host": func() { request.Hosts = given.GetHosts() }, "port": func() { request.Ports = given.GetPorts() },
		"method": func() { request.Methods = given.GetMethods() }, "path": func() { request.Paths = given.GetPaths() },
		"private": func() { request.Private = given.GetPrivate() }, "agent": func() { request.Agents = given.GetAgents() },
		"variable": func() { request.Variable = given.GetVariable() }, "roots": func() { request.Roots = given.GetRoots() },
		"header": func() { s.Header = to.GetHeader() }, "parameter": func() { s.Parameter = to.GetParameter() },
		"base-url": func() { s.BaseUrl = to.GetBaseUrl() }, "api": func() { s.Api = to.GetApi() }, "app-id": func() { s.AppId = to.GetAppId() },
		"installation-id": func() { s.InstallationId = to.GetInstallationId() }, "repository": func() { s.Repositories = to.GetRepositories() },
		"permission": func() { s.Permissions = to.GetPermissions() }, "token-url": func() { s.TokenUrl = to.GetTokenUrl() },
		"client-id": func() { s.ClientId = to.GetClientId() }, "scope": func() { s.Scopes = to.GetScopes() }, "audience": func() { s.Audience = to.GetAudience() },
		"region": func() { s.Region = to.GetRegion() }, "service": func() { s.Service = to.GetService() },
	} {
		if cmd.Flags().Changed(flag) {
			take()
		}
	}
	return request
}
