package token

import (
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// defaultTTL has a token that nobody thinks of any more end by itself.
const defaultTTL = 90 * 24 * time.Hour

// createOptions are the flags of token create.
type createOptions struct {
	request *deckhandv1.CreateTokenRequest
	ttl     time.Duration
	worker  bool
}

func createCommand(e *env.Env) *cobra.Command {
	o := createOptions{request: &deckhandv1.CreateTokenRequest{}}
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Create a token", Long: "Make a token. It is printed this once; the hub keeps its hash.",
		Example: `deckhand token create ci --role basic --service TaskService --service EventService
deckhand token create dashboard --read-only --ttl 720h
deckhand token create alice-laptop --user alice
deckhand token create rack-2 --worker --pool dmz --ttl 0`,
		Args: env.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.request.Name = args[0]
			if o.worker {
				o.request.Kind = deckhandv1.TokenKind_TOKEN_KIND_WORKER
			}
			if o.ttl < 0 {
				return env.Usage(cmd, "--ttl is %s, give 0 for ever or a positive time", o.ttl)
			}
			if o.ttl > 0 {
				o.request.Ttl = durationpb.New(o.ttl)
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Tokens.CreateToken(cmd.Context(), o.request)
			if err != nil {
				return err
			}
			e.Notef("this is the token; it is not shown again:\n%s", res.GetSecret())
			return output.Brief(e.Printer(), noun(e), res.GetToken())
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.worker, "worker", false, "for a worker")
	flags.StringVar(&o.request.UserId, "user", "", "whose it is; your own by default")
	flags.StringVar(&o.request.Role, "role", "", "the most that it may: viewer, basic, advanced or admin")
	flags.BoolVar(&o.request.ReadOnly, "read-only", false, "it may only read")
	flags.BoolVar(&o.request.Decide, "decide", false, "it may decide items of the inbox through MCP, on hubs with --mcp-decide")
	flags.StringSliceVar(&o.request.Services, "service", nil, "it may call these services only, such as TaskService")
	flags.StringSliceVar(&o.request.Pools, "pool", nil, "of a worker's: it may be of these pools only")
	flags.DurationVar(&o.ttl, "ttl", defaultTTL, "how long it can be used; 0 for ever")
	return cmd
}
