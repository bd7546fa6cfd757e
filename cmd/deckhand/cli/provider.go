package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/internal/provider"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func (a *app) providerCommand() *cobra.Command {
	cmd := group("provider", "Connect model providers and search engines, and see what models cost", `
Keys are kept by the hub, sealed, and never leave it: workers ask models through
it, and so does web_search. Providers are
`+strings.Join(provider.Connectable(), ", ")+`.
`, `
deckhand provider connect anthropic --key-file key.txt
deckhand provider list
deckhand provider usage
`)
	cmd.AddCommand(a.providerConnectCommand(), a.providerListCommand(), a.providerDisconnectCommand(), a.providerUsageCommand(),
		a.providerPriceCommand())
	return cmd
}

func (a *app) providerConnectCommand() *cobra.Command {
	var keyFile, expires string
	var login loginFlags
	request := &deckhandv1.ConnectProviderRequest{}
	cmd := &cobra.Command{
		Use: "connect PROVIDER", Short: "Test a key with its provider, and keep it",
		Long: `Tests the key and stores it in the place of the one before. It is read from a
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
		Args: takes("PROVIDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.Name = args[0]
			p, ok := provider.Of(args[0])
			if !ok || p.Format == provider.Script {
				return usage(cmd, "there is no provider %q, the providers are %s", args[0], strings.Join(provider.Connectable(), ", "))
			}
			if err := login.check(cmd, p); err != nil {
				return err
			}
			if keyFile == "" && !p.KeyOptional && !login.oauth {
				return usage(cmd, "--key-file is missing: name the file that holds the key, or - for standard input")
			}
			if expires != "" {
				at, err := time.Parse(time.DateOnly, expires)
				if err != nil {
					return usage(cmd, "--expires is %q, give a day such as 2027-01-31", expires)
				}
				request.ExpiresAt = timestamppb.New(at)
			}
			var err error
			if request.Key, err = a.readKey(keyFile); err != nil {
				return err
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			if login.oauth {
				if request.Login, err = a.login(cmd.Context(), p, &login); err != nil {
					return err
				}
			}
			res, err := client.Providers.ConnectProvider(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			return output.Brief(a.printer(), a.providerNoun(), res.Msg.GetProvider())
		},
	}
	cmd.Flags().StringVar(&keyFile, "key-file", "", "file that holds the key; - for standard input")
	cmd.Flags().StringVar(&request.BaseUrl, "base-url", "", "where the provider is, if not at its usual address")
	cmd.Flags().StringVar(&expires, "expires", "", "the day on which the key ends, such as 2027-01-31")
	login.add(cmd)
	return cmd
}

const maxKeyFile = 64 << 10

func (a *app) readKey(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	in := a.in
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", fmt.Errorf("open the file of the key: %w", err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxKeyFile))
	if err != nil {
		return "", fmt.Errorf("read the key: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

func (a *app) providerListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the providers that are connected", Example: "deckhand provider list -o wide",
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			providers, err := sdk.All(cmd.Context(), client.Providers.ListProviders, func(token string) *deckhandv1.ListProvidersRequest {
				return &deckhandv1.ListProvidersRequest{PageToken: token}
			}, (*deckhandv1.ListProvidersResponse).GetProviders)
			if err != nil {
				return err
			}
			if len(providers) == 0 {
				a.notef("no provider is connected: deckhand provider connect anthropic --key-file key.txt")
			}
			return output.List(a.printer(), a.providerNoun(), providers)
		},
	}
}

func (a *app) providerNoun() output.Noun[*deckhandv1.Provider] {
	return output.Noun[*deckhandv1.Provider]{
		Name: (*deckhandv1.Provider).GetName,
		Columns: []output.Column[*deckhandv1.Provider]{
			{Header: "name", Value: (*deckhandv1.Provider).GetName},
			{Header: "key", Value: func(x *deckhandv1.Provider) string {
				switch {
				case x.GetRefusedAt() != nil:
					return "refused since " + moment(x.GetRefusedAt())
				case x.GetLogin():
					return "login, renewed"
				case x.GetKeyEndsIn() == "":
					return "-"
				}
				return "…" + x.GetKeyEndsIn()
			}},
			{Header: "connected", Value: func(x *deckhandv1.Provider) string { return a.age(x.GetConnectedAt()) }},
			{Header: "used", Value: func(x *deckhandv1.Provider) string { return a.age(x.GetLastUsedAt()) }},
			{Header: "expires", Value: func(x *deckhandv1.Provider) string { return moment(x.GetExpiresAt()) }},
			{Header: "by", Value: (*deckhandv1.Provider).GetConnectedBy},
			{Header: "address", Value: (*deckhandv1.Provider).GetBaseUrl, Wide: true},
		},
	}
}

func (a *app) providerDisconnectCommand() *cobra.Command {
	return &cobra.Command{
		Use: "disconnect PROVIDER", Short: "Delete a provider's key",
		Long:    "Calls that are under way are cut off within a second; tasks that need the provider pause.",
		Example: "deckhand provider disconnect openai", Args: takes("PROVIDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			if _, err := client.Providers.DisconnectProvider(cmd.Context(), connect.NewRequest(&deckhandv1.DisconnectProviderRequest{Name: args[0]})); err != nil {
				return err
			}
			a.notef("provider %s is disconnected, and its key is deleted", args[0])
			return nil
		},
	}
}

func (a *app) providerUsageCommand() *cobra.Command {
	var since string
	cmd := &cobra.Command{
		Use: "usage [PROVIDER]", Short: "Show what models used and cost, this month or since a day",
		Example: `deckhand provider usage
deckhand provider usage anthropic --since 2026-01-01`,
		Args: takes("[PROVIDER]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request := &deckhandv1.GetProviderUsageRequest{}
			if len(args) > 0 {
				request.Name = args[0]
			}
			if since != "" {
				at, err := time.Parse(time.DateOnly, since)
				if err != nil {
					return usage(cmd, "--since is %q, give a day such as 2026-01-31", since)
				}
				request.Since = timestamppb.New(at)
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Providers.GetProviderUsage(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			if len(res.Msg.GetModels()) == 0 {
				a.notef("no model was called since %s", moment(res.Msg.GetSince()))
			}
			return output.List(a.printer(), modelUsageNoun(), res.Msg.GetModels())
		},
	}
	cmd.Flags().StringVar(&since, "since", "", "from this day on, in UTC, such as 2026-01-31")
	return cmd
}

func modelUsageNoun() output.Noun[*deckhandv1.ModelUsage] {
	name := func(x *deckhandv1.ModelUsage) string { return x.GetProvider() + "/" + x.GetModel() }
	figure := func(header string, of func(*deckhandv1.ModelUsage) int64) output.Column[*deckhandv1.ModelUsage] {
		return output.Column[*deckhandv1.ModelUsage]{Header: header, Value: func(x *deckhandv1.ModelUsage) string { return fmt.Sprint(of(x)) }}
	}
	return output.Noun[*deckhandv1.ModelUsage]{
		Name: name,
		Columns: []output.Column[*deckhandv1.ModelUsage]{
			{Header: "model", Value: name},
			figure("calls", (*deckhandv1.ModelUsage).GetCalls),
			figure("estimated", (*deckhandv1.ModelUsage).GetEstimated),
			figure("input", func(x *deckhandv1.ModelUsage) int64 { return x.GetUsage().GetInputTokens() }),
			figure("output", func(x *deckhandv1.ModelUsage) int64 { return x.GetUsage().GetOutputTokens() }),
			figure("cache read", func(x *deckhandv1.ModelUsage) int64 { return x.GetUsage().GetCacheReadTokens() }),
			figure("cache write", func(x *deckhandv1.ModelUsage) int64 { return x.GetUsage().GetCacheWriteTokens() }),
			{Header: "cost", Value: func(x *deckhandv1.ModelUsage) string { return usd(x.GetUsage().GetCostMicros()) }},
		},
	}
}

// usd shows micro-dollars.
func usd(micros int64) string { return fmt.Sprintf("$%.2f", float64(micros)/1e6) }

func (a *app) providerPriceCommand() *cobra.Command {
	request := &deckhandv1.SetPriceRequest{}
	var cacheRead, cacheWrite float64
	cmd := &cobra.Command{
		Use: "price PROVIDER MODEL --input USD --output USD", Short: "Say what a model costs, for a million tokens",
		Long: `Goes before the price that is shipped. A model without a price is not called;
0 suits a model on a server of your own.`,
		Example: `deckhand provider price ollama qwen3:8b --input 0 --output 0
deckhand provider price openai gpt-5 --input 1.25 --output 10 --cache-read 0.125`,
		Args: takes("PROVIDER", "MODEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.Provider, request.Model = args[0], args[1]
			if cmd.Flags().Changed("cache-read") {
				request.CacheRead = &cacheRead
			}
			if cmd.Flags().Changed("cache-write") {
				request.CacheWrite = &cacheWrite
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			if _, err := client.Providers.SetPrice(cmd.Context(), connect.NewRequest(request)); err != nil {
				return err
			}
			a.notef("model %s of %s costs $%g for a million tokens of input and $%g of output from its next call on", args[1], args[0], request.GetInput(), request.GetOutput())
			return nil
		},
	}
	cmd.Flags().Float64Var(&request.Input, "input", 0, "US dollars for a million tokens of input")
	cmd.Flags().Float64Var(&request.Output, "output", 0, "US dollars for a million tokens of output")
	cmd.Flags().Float64Var(&cacheRead, "cache-read", 0, "of input read from the provider's cache; as input if left out")
	cmd.Flags().Float64Var(&cacheWrite, "cache-write", 0, "of input written to the provider's cache; as input if left out")
	for _, name := range []string{"input", "output"} {
		_ = cmd.MarkFlagRequired(name) // it is there
	}
	return cmd
}
