// Package registry is the command "deckhand registry": the registries that images of
// jails come from, which images agents may use, and who must have signed them.
package registry

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Command returns the command "deckhand registry".
func Command(e *env.Env) *cobra.Command {
	cmd := env.Group("registry", "Manage registries of images, and which images agents may use", `
Nodes pull the images that personas name with jail.image. Private registries need
credentials, which are stored encrypted and given to a node for one pull. A mirror
is asked before the registry itself.
`, `
deckhand registry set ghcr.io --username robot --password-file token.txt
deckhand registry set docker.io --mirror mirror.example.com/dockerhub
deckhand registry rules --allow 'ghcr.io/team/*' --require-digest
deckhand registry verify set 'ghcr.io/team/*' --key cosign.pub
`)
	cmd.AddCommand(setCommand(e), listCommand(e), deleteCommand(e), rulesCommand(e), verifyCommand(e))
	return cmd
}

func noun(e *env.Env) output.Noun[*deckhandv1.Registry] {
	return output.Noun[*deckhandv1.Registry]{
		Name: (*deckhandv1.Registry).GetHost,
		Columns: []output.Column[*deckhandv1.Registry]{
			{Header: "host", Value: (*deckhandv1.Registry).GetHost},
			{Header: "username", Value: (*deckhandv1.Registry).GetUsername},
			{Header: "mirror", Value: (*deckhandv1.Registry).GetMirror},
			{Header: "set by", Value: (*deckhandv1.Registry).GetSetBy},
			{Header: "age", Value: func(x *deckhandv1.Registry) string { return e.Age(x.GetSetAt()) }},
		},
	}
}

// setOptions are the flags of registry set.
type setOptions struct {
	passwordFile string
	req          *deckhandv1.SetRegistryRequest
}

func setCommand(e *env.Env) *cobra.Command {
	o := setOptions{req: &deckhandv1.SetRegistryRequest{}}
	cmd := &cobra.Command{
		Use: "set HOST", Short: "Store credentials and a mirror for a registry",
		Long: `Stores credentials, a mirror or both; earlier ones are replaced. HOST is the first
part of an image's name; Docker Hub is docker.io. The password or token is read from
a file, or with - from standard input. A mirror has credentials of its own: store
them under its host.`,
		Example: `deckhand registry set ghcr.io --username robot --password-file token.txt
deckhand registry set docker.io --mirror mirror.example.com/dockerhub`,
		Args: env.Args("HOST"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.req.Host = args[0]
			if (o.req.GetUsername() == "") != (o.passwordFile == "") {
				return env.Usage(cmd, "--username and --password-file belong together")
			}
			var err error
			if o.req.Password, err = env.ReadSecret(e, o.passwordFile); err != nil {
				return err
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, noun(e), client.Images.SetRegistry, o.req, (*deckhandv1.SetRegistryResponse).GetRegistry)
		},
	}
	cmd.Flags().StringVar(&o.req.Username, "username", "", "who logs in")
	cmd.Flags().StringVar(&o.passwordFile, "password-file", "", "file that holds the password or token; - for standard input")
	cmd.Flags().StringVar(&o.req.Mirror, "mirror", "", "host that is asked first, with a path if it needs one")
	return cmd
}

func listCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List registries with stored credentials or a mirror", Example: "deckhand registry list", Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.List(cmd, e, noun(e), "nothing is stored: images are pulled without credentials", client.Images.ListRegistries, func(token string) *deckhandv1.ListRegistriesRequest {
				return &deckhandv1.ListRegistriesRequest{PageToken: token}
			}, (*deckhandv1.ListRegistriesResponse).GetRegistries)
		},
	}
}

func deleteCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "delete HOST", Short: "Delete the credentials and mirror of a registry", Example: "deckhand registry delete ghcr.io", Args: env.Args("HOST"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			if _, err := client.Images.DeleteRegistry(cmd.Context(), &deckhandv1.DeleteRegistryRequest{Host: args[0]}); err != nil {
				return err
			}
			e.Notef("nothing is stored for registry %s any more", args[0])
			return nil
		},
	}
}

var rulesNoun = output.Noun[*deckhandv1.ImageRules]{
	Name: func(x *deckhandv1.ImageRules) string { return strings.Join(x.GetAllow(), ",") },
	Columns: []output.Column[*deckhandv1.ImageRules]{
		{Header: "allowed", Value: func(x *deckhandv1.ImageRules) string {
			if len(x.GetAllow()) == 0 {
				return "every image"
			}
			return strings.Join(x.GetAllow(), ", ")
		}},
		{Header: "digest", Value: func(x *deckhandv1.ImageRules) string {
			if x.GetRequireDigest() {
				return "required"
			}
			return "not required"
		}},
		{Header: "root", Value: func(x *deckhandv1.ImageRules) string {
			if x.GetAllowRoot() {
				return "allowed"
			}
			return "not allowed"
		}},
	},
}

// rulesOptions are the flags of registry rules.
type rulesOptions struct {
	allow  []string
	digest bool
	all    bool
	root   bool
}

func rulesCommand(e *env.Env) *cobra.Command {
	var o rulesOptions
	cmd := &cobra.Command{
		Use: "rules", Short: "Show or set which images agents may use",
		Long: `Without flags, shows the rules. With flags, replaces them; they apply to the next
attempt of each task. --allow names repositories with their registries, or all below
a path with /* at the end.`,
		Example: `deckhand registry rules
deckhand registry rules --allow 'ghcr.io/team/*,docker.io/library/debian' --require-digest
deckhand registry rules --allow-all`,
		Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			if o.all && len(o.allow) > 0 {
				return env.Usage(cmd, "--allow and --allow-all exclude each other")
			}
			changed := cmd.Flags().Changed
			before, err := client.Images.GetImageRules(cmd.Context(), &deckhandv1.GetImageRulesRequest{})
			if err != nil {
				return err
			}
			rules := before.GetRules()
			if !changed("allow") && !changed("allow-all") && !changed("require-digest") && !changed("allow-root") {
				return output.One(e.Printer(), rulesNoun, rules)
			}
			if changed("allow") || o.all {
				rules.Allow = o.allow
			}
			if changed("require-digest") {
				rules.RequireDigest = o.digest
			}
			if changed("allow-root") {
				rules.AllowRoot = o.root
			}
			after, err := client.Images.SetImageRules(cmd.Context(), &deckhandv1.SetImageRulesRequest{Rules: rules})
			if err != nil {
				return err
			}
			return output.One(e.Printer(), rulesNoun, after.GetRules())
		},
	}
	cmd.Flags().StringSliceVar(&o.allow, "allow", nil, "repositories that agents may use: ghcr.io/team/*,docker.io/library/debian")
	cmd.Flags().BoolVar(&o.all, "allow-all", false, "agents may use every image")
	cmd.Flags().BoolVar(&o.root, "allow-root", false, "personas may run commands as root in their jails, and set up their image; --allow-root=false for not")
	cmd.Flags().BoolVar(&o.digest, "require-digest", false, "personas must name the digest of their image; --require-digest=false for not")
	return cmd
}
