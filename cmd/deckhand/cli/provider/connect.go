package provider

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/internal/provider"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// connectOptions are the flags of provider connect.
type connectOptions struct {
	keyFile string
	expires string
	login   loginFlags
	request *deckhandv1.ConnectProviderRequest
}

func connectCommand(e *env.Env) *cobra.Command {
	o := connectOptions{request: &deckhandv1.ConnectProviderRequest{}}
	cmd := &cobra.Command{
		Use: "connect PROVIDER", Short: "Connect a provider: test its key and store it",
		Long: `Tests the key and stores it; an earlier key is replaced. It is read from a
file, or with - from standard input: an argument could be seen by other users.
A server of your own may want none. "compatible" is any other server that speaks
OpenAI's API. A search engine (` + strings.Join(provider.Engines(), ", ") + `) is
tried with one question; SearXNG without a key is not, as nodes ask it.

With --oauth you log in to gemini with a browser on this machine, by OAuth 2.0
with PKCE and an OAuth client of your own. The hub keeps the tokens, sealed, and
renews them five minutes before they end.`,
		Example: `deckhand provider connect anthropic --key-file key.txt
pass show openai | deckhand provider connect openai --key-file -
deckhand provider connect gemini --oauth --client-id ID --client-secret-file secret.txt
deckhand provider connect ollama
deckhand provider connect vllm --base-url http://10.0.0.7:8000/v1`,
		Args: env.Args("PROVIDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.request.Name = args[0]
			p, ok := provider.Of(args[0])
			if !ok || p.Format == provider.Script {
				return env.Usage(cmd, "there is no provider %q, the providers are %s", args[0], strings.Join(provider.Connectable(), ", "))
			}
			if err := o.login.check(cmd, p); err != nil {
				return err
			}
			if o.keyFile == "" && !p.KeyOptional && !o.login.oauth {
				return env.Usage(cmd, "--key-file is missing: name the file that holds the key, or - for standard input")
			}
			if o.expires != "" {
				at, err := time.Parse(time.DateOnly, o.expires)
				if err != nil {
					return env.Usage(cmd, "--expires is %q, give a day such as 2027-01-31", o.expires)
				}
				o.request.ExpiresAt = timestamppb.New(at)
			}
			var err error
			if o.request.Key, err = env.ReadSecret(e, o.keyFile); err != nil {
				return err
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			if o.login.oauth {
				if o.request.Login, err = logIn(cmd.Context(), e, p, &o.login); err != nil {
					return err
				}
			}
			return env.Change(cmd, e, noun(e), client.Providers.ConnectProvider, o.request, (*deckhandv1.ConnectProviderResponse).GetProvider)
		},
	}
	cmd.Flags().StringVar(&o.keyFile, "key-file", "", "file that holds the key; - for standard input")
	cmd.Flags().StringVar(&o.request.BaseUrl, "base-url", "", "where the provider is, if not at its usual address")
	cmd.Flags().StringVar(&o.expires, "expires", "", "the day on which the key ends, such as 2027-01-31")
	o.login.add(cmd)
	return cmd
}
