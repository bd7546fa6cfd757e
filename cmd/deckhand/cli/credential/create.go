package credential

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// maxRoots bounds the file of --roots, in bytes; the hub refuses more.
const maxRoots = 64 << 10

// createFlags are those of a request that its fields cannot be read into.
type createFlags struct {
	ports       []uint
	permissions []string
	roots       string
	value       valueFlags
}

func createCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.CreateCredentialRequest{Settings: &deckhandv1.CredentialSettings{}}
	flags := &createFlags{}
	cmd := &cobra.Command{
		Use: "create NAME --kind KIND", Short: "Create a credential",
		Long: `The kinds are ` + strings.Join(kinds, ", ") + `.

` + valueHelp,
		Example: `deckhand credential create api --kind bearer --host api.example.com --path '/v1/**' --from-env API_TOKEN --agent coder
deckhand credential create github --kind github_app --app-id 123456 --repository acme/web --permission contents=write,pull_requests=write --value-file app.pem --agent coder
aws configure export-credentials | deckhand credential create bucket --kind aws_sigv4 --host reports.s3.eu-central-1.amazonaws.com --value-file - --agent reporter`,
		Args: env.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.Name = args[0]
			if request.GetKind() == "" {
				return env.Usage(cmd, "--kind is missing: give one of %s", strings.Join(kinds, ", "))
			}
			if err := flags.apply(cmd, request); err != nil {
				return err
			}
			var err error
			if request.Value, request.ExpiresAt, err = flags.value.read(e, cmd, request.GetKind()); err != nil {
				return err
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Credentials.CreateCredential(cmd.Context(), request)
			if err != nil {
				return err
			}
			if len(request.GetAgents()) == 0 {
				e.Notef("no agent may use it: create it with --agent NAME for some, or with --agent '*' for all")
			}
			return output.Brief(e.Printer(), noun(e), res.GetCredential())
		},
	}
	cmd.Flags().StringVar(&request.Kind, "kind", "", "what it is: "+strings.Join(kinds, ", "))
	flags.register(cmd, request)
	return cmd
}

// register adds the flags of a credential.
func (f *createFlags) register(cmd *cobra.Command, request *deckhandv1.CreateCredentialRequest) {
	s := request.GetSettings()
	to := cmd.Flags()
	to.StringSliceVar(&request.Hosts, "host", nil, "hosts into whose requests it is inserted, or into whose pages a password is typed; github_app and gitlab have their own")
	to.UintSliceVar(&f.ports, "port", nil, "their ports; 443 by default")
	to.StringSliceVar(&request.Methods, "method", nil, "only requests with these methods, such as GET")
	to.StringSliceVar(&request.Paths, "path", nil, "only requests to these paths, such as '/repos/{owner}/{repo}/**'; '!/admin/**' leaves paths out")
	to.BoolVar(&request.Private, "private", false, "the hosts may be in private networks")
	to.StringSliceVar(&request.Agents, "agent", nil, "agents that may use it; '*' for all")
	to.StringVar(&request.Variable, "variable", "", "variable that commands get with a placeholder, such as GITHUB_TOKEN")
	to.StringVar(&f.roots, "roots", "", "file with the certificates of private authorities by which the hosts are verified")
	to.StringVar(&s.Header, "header", "", "name of the header, of the kind header")
	to.StringVar(&s.Parameter, "parameter", "", "name of the parameter, of the kind query")
	to.StringVar(&s.BaseUrl, "base-url", "", "URL of GitHub's API or of GitLab, if it is one of your own")
	to.StringVar(&s.Api, "api", "", "github or gitlab, if the hosts have that API, of the kinds bearer and basic")
	to.StringVar(&s.AppId, "app-id", "", "id of the GitHub App")
	to.Int64Var(&s.InstallationId, "installation-id", 0, "its installation; without it that of the repository")
	to.StringSliceVar(&s.Repositories, "repository", nil, "repositories that its tokens may be for: OWNER/NAME, or OWNER/* for all of an owner")
	to.StringSliceVar(&f.permissions, "permission", nil, "the most that its tokens may do, such as contents=write,pull_requests=write")
	to.StringVar(&s.TokenUrl, "token-url", "", "where an OAuth 2.0 client gets tokens")
	to.StringVar(&s.ClientId, "client-id", "", "id of the OAuth 2.0 client")
	to.StringSliceVar(&s.Scopes, "scope", nil, "scopes of its tokens")
	to.StringVar(&s.Audience, "audience", "", "audience of its tokens, for servers that want one")
	to.StringVar(&s.Region, "region", "", "region of AWS, if the host's name does not say it")
	to.StringVar(&s.Service, "service", "", "service of AWS, if the host's name does not say it")
	f.value.register(cmd)
}

// apply reads what the flags hold into a request.
func (f *createFlags) apply(cmd *cobra.Command, request *deckhandv1.CreateCredentialRequest) error {
	for _, port := range f.ports {
		if port == 0 || port > 65535 {
			return env.Usage(cmd, "--port is %d, give one from 1 to 65535", port)
		}
		request.Ports = append(request.Ports, uint32(port))
	}
	for _, text := range f.permissions {
		name, level, found := strings.Cut(text, "=")
		if !found || name == "" || level == "" {
			return env.Usage(cmd, "--permission is %q, give a name and read, write or admin, such as contents=write", text)
		}
		if request.GetSettings().GetPermissions() == nil {
			request.Settings.Permissions = map[string]string{}
		}
		request.Settings.Permissions[name] = level
	}
	if f.roots != "" {
		data, err := env.ReadBounded(f.roots, maxRoots)
		if err != nil {
			return err
		}
		request.Roots = string(data)
	}
	return nil
}
