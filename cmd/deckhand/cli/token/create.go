package token

import (
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// defaultTTL has a token that nobody thinks of any more end by itself.
const defaultTTL = 90 * 24 * time.Hour

func createCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.CreateTokenRequest{}
	var ttl time.Duration
	var worker bool
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make a token", Long: "Make a token. It is printed this once; the hub keeps its hash.",
		Example: `deckhand token create ci --role basic --service TaskService --service EventService
deckhand token create dashboard --read-only --ttl 720h
deckhand token create alice-laptop --user alice
deckhand token create rack-2 --worker --pool dmz --ttl 0`,
		Args: env.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.Name = args[0]
			if worker {
				request.Kind = deckhandv1.TokenKind_TOKEN_KIND_WORKER
			}
			if ttl < 0 {
				return env.Usage(cmd, "--ttl is %s, give 0 for ever or a positive time", ttl)
			}
			if ttl > 0 {
				request.Ttl = durationpb.New(ttl)
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Tokens.CreateToken(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			e.Notef("this is the token; it is not shown again:\n%s", res.Msg.GetSecret())
			return output.Brief(e.Printer(), noun(e), res.Msg.GetToken())
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&worker, "worker", false, "for a worker")
	flags.StringVar(&request.UserId, "user", "", "whose it is; your own by default")
	flags.StringVar(&request.Role, "role", "", "the most that it may: viewer, basic, advanced or admin")
	flags.BoolVar(&request.ReadOnly, "read-only", false, "it may only read")
	flags.StringSliceVar(&request.Services, "service", nil, "it may call these services only, such as TaskService")
	flags.StringSliceVar(&request.Pools, "pool", nil, "of a worker's: it may be of these pools only")
	flags.DurationVar(&ttl, "ttl", defaultTTL, "how long it can be used; 0 for ever")
	return cmd
}
