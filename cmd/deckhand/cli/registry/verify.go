package registry

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Limits of files, which the hub has too.
const (
	maxPublicKeys  = 64 << 10
	maxTrustedRoot = 256 << 10
)

func verifyCommand(e *env.Env) *cobra.Command {
	cmd := env.Group("verify", "Manage signature rules of images", `
A rule names repositories and who must have signed their images: the owner of a key,
or an identity that logged in at an issuer. An image that a rule matches is pulled only
if it has such a signature. If several rules match, the most specific one applies.
`, `
deckhand registry verify set 'ghcr.io/team/*' --key cosign.pub
deckhand registry verify set 'docker.io/acme/*' --issuer https://accounts.example.com --identity release@example.com --trusted-root trusted_root.json
deckhand registry verify list
`)
	cmd.AddCommand(setVerifyCommand(e), listVerifyCommand(e), deleteVerifyCommand(e))
	return cmd
}

func verifyNoun(e *env.Env) output.Noun[*deckhandv1.SignatureRule] {
	return output.Noun[*deckhandv1.SignatureRule]{
		Name: (*deckhandv1.SignatureRule).GetPattern,
		Columns: []output.Column[*deckhandv1.SignatureRule]{
			{Header: "images", Value: (*deckhandv1.SignatureRule).GetPattern},
			{Header: "signed by", Value: (*deckhandv1.SignatureRule).GetSigner},
			{Header: "set by", Value: (*deckhandv1.SignatureRule).GetSetBy},
			{Header: "age", Value: func(x *deckhandv1.SignatureRule) string { return e.Age(x.GetSetAt()) }},
		},
	}
}

// setVerifyOptions are the flags of registry verify set.
type setVerifyOptions struct {
	key         string
	trustedRoot string
	req         *deckhandv1.SetSignatureRuleRequest
}

func setVerifyCommand(e *env.Env) *cobra.Command {
	o := setVerifyOptions{req: &deckhandv1.SetSignatureRuleRequest{}}
	cmd := &cobra.Command{
		Use: "set PATTERN", Short: "Require signatures for the images of some repositories",
		Long: `Stores a rule, which replaces one with the same pattern; it applies to the next
attempt of each task. PATTERN is a repository with its registry, or all below a path
with /* at the end. A key file may have several public keys, of which one must have
signed. --identity-regexp must match the whole identity. The trusted root names the
certificate authorities and transparency logs that are trusted; cosign trusted-root
create writes the one of the public sigstore.`,
		Example: `deckhand registry verify set 'ghcr.io/team/*' --key cosign.pub
deckhand registry verify set docker.io/acme/app --issuer https://token.actions.githubusercontent.com --identity-regexp 'https://github\.com/acme/app/.*' --trusted-root trusted_root.json`,
		Args: env.Args("PATTERN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.req.Pattern = args[0]
			keyless := o.req.GetIssuer() != "" || o.req.GetIdentity() != "" || o.req.GetIdentityRegexp() != "" || o.trustedRoot != ""
			if (o.key != "") == keyless {
				return env.Usage(cmd, "give either --key, or --issuer with --identity or --identity-regexp and --trusted-root")
			}
			if o.key != "" {
				raw, err := env.ReadBounded(o.key, maxPublicKeys)
				if err != nil {
					return err
				}
				o.req.PublicKeys = string(raw)
			}
			if o.trustedRoot != "" {
				var err error
				if o.req.TrustedRoot, err = env.ReadBounded(o.trustedRoot, maxTrustedRoot); err != nil {
					return err
				}
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, verifyNoun(e), client.Images.SetSignatureRule, o.req, (*deckhandv1.SetSignatureRuleResponse).GetRule)
		},
	}
	cmd.Flags().StringVar(&o.key, "key", "", "file with the public key in PEM, such as cosign.pub")
	cmd.Flags().StringVar(&o.req.Issuer, "issuer", "", "URL where the identity logs in")
	cmd.Flags().StringVar(&o.req.Identity, "identity", "", "mail address or URI of who signs")
	cmd.Flags().StringVar(&o.req.IdentityRegexp, "identity-regexp", "", "expression that matches the whole identity")
	cmd.Flags().StringVar(&o.trustedRoot, "trusted-root", "", "file with the authorities and logs to trust: trusted_root.json")
	return cmd
}

func listVerifyCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List signature rules", Example: "deckhand registry verify list", Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.List(cmd, e, verifyNoun(e), "there is no rule: signatures are not verified", client.Images.ListSignatureRules, func(token string) *deckhandv1.ListSignatureRulesRequest {
				return &deckhandv1.ListSignatureRulesRequest{PageToken: token}
			}, (*deckhandv1.ListSignatureRulesResponse).GetRules)
		},
	}
}

func deleteVerifyCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "delete PATTERN", Short: "Delete a signature rule", Example: "deckhand registry verify delete 'ghcr.io/team/*'", Args: env.Args("PATTERN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			if _, err := client.Images.DeleteSignatureRule(cmd.Context(), &deckhandv1.DeleteSignatureRuleRequest{Pattern: args[0]}); err != nil {
				return err
			}
			e.Notef("the rule for %s is deleted", args[0])
			return nil
		},
	}
}
