package memory

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func setCommand(e *env.Env) *cobra.Command {
	var scope string
	var ttl time.Duration
	var confidence float64
	var version int32
	cmd := &cobra.Command{
		Use: "set TYPE KEY VALUE", Short: "Store an entry, or a new version of it",
		Long: `TYPE is preference, fact, instruction, selector, workflow or statistic. VALUE is a text, or
JSON. An entry with a secret in it is refused.

Preferences with a meaning: execution_speed (fast, normal, careful), confirmation_level
(always, dangerous_only, never; it never asks less than the policy), default_timeout (such
as 45m), preferred_tools (a JSON list), and language.`,
		Example: `deckhand memory set fact "staging database" "db-2.staging.example.com, port 5433"
deckhand memory set instruction "commit messages" "Write commit messages in English." --scope organisation
deckhand memory set preference preferred_tools '["file_edit", "shell_exec"]'
deckhand memory set fact "freeze" "No deployments this week." --scope team:payments --ttl 168h`,
		Args: env.Args("TYPE", "KEY", "VALUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &deckhandv1.SetMemoryRequest{Key: args[1], Value: valueOf(args[2]), ExpectedVersion: version}
			var err error
			if req.Type, err = typeOf(cmd, args[0]); err != nil {
				return err
			}
			if req.Scope, err = scopeOf(cmd, scope); err != nil {
				return err
			}
			if ttl > 0 {
				req.Ttl = durationpb.New(ttl)
			}
			if cmd.Flags().Changed("confidence") {
				req.Confidence = &confidence
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, noun(e), client.Memories.SetMemory, req, (*deckhandv1.SetMemoryResponse).GetMemory)
		},
	}
	cmd.Flags().StringVar(&scope, "scope", "user", scopeHelp)
	cmd.Flags().DurationVar(&ttl, "ttl", 0, "how long it is kept; for ever by default")
	cmd.Flags().Float64Var(&confidence, "confidence", 1, "how sure you are, from 0 to 1")
	cmd.Flags().Int32Var(&version, "version", 0, "fail unless this is the version that it replaces")
	return cmd
}

func getCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "get MEMORY", Short: "Show an entry with all fields", Example: "deckhand memory get memory_3q9", Args: env.Args("MEMORY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Show(cmd, e, noun(e), client.Memories.GetMemory, &deckhandv1.GetMemoryRequest{MemoryId: args[0]}, (*deckhandv1.GetMemoryResponse).GetMemory)
		},
	}
}

func listCommand(e *env.Env) *cobra.Command {
	var scope, from string
	var types []string
	req := &deckhandv1.ListMemoriesRequest{}
	cmd := &cobra.Command{
		Use: "list", Short: "List entries, the last changed first",
		Long: `Lists what you see: your own entries, those of your teams and of the organisation, and those
of agents and workspaces that you see.`,
		Example: "deckhand memory list\ndeckhand memory list --scope agent:coder --type fact\ndeckhand memory list --source agent --unconfirmed\ndeckhand memory list --deleted",
		Args:    env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if req.Scope, err = scopeOf(cmd, scope); err != nil {
				return err
			}
			if req.Types, err = typesOf(cmd, types); err != nil {
				return err
			}
			switch from {
			case "":
			case "person":
				req.Source = deckhandv1.MemorySourceKind_MEMORY_SOURCE_KIND_PERSON
			case "agent":
				req.Source = deckhandv1.MemorySourceKind_MEMORY_SOURCE_KIND_AGENT
			case "import":
				req.Source = deckhandv1.MemorySourceKind_MEMORY_SOURCE_KIND_IMPORT
			default:
				return env.Usage(cmd, "--source is %q, and is to be person, agent or import", from)
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.ListPage(cmd, e, noun(e), client.Memories.ListMemories, req, (*deckhandv1.ListMemoriesResponse).GetMemories)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&scope, "scope", "", scopeHelp+"; all by default")
	flags.StringArrayVar(&types, "type", nil, "only this type; may be given several times")
	flags.StringVar(&from, "source", "", "only what this `SOURCE` wrote: person, agent or import")
	flags.StringVar(&req.Query, "query", "", "only with these `WORDS`, or this part of the key")
	flags.BoolVar(&req.Unconfirmed, "unconfirmed", false, "only what agents wrote and nobody confirmed")
	flags.BoolVar(&req.Deleted, "deleted", false, "deleted entries, which can be restored")
	flags.StringVar(&req.PageToken, "page-token", "", "go on with the page that the last call named")
	return cmd
}

func searchCommand(e *env.Env) *cobra.Command {
	req := &deckhandv1.RecallMemoriesRequest{}
	cmd := &cobra.Command{
		Use: "search TEXT", Short: "Find the entries that fit a question or a goal, as a run does",
		Example: "deckhand memory search \"where is the staging database\"\ndeckhand memory search \"deploy the shop\" --agent deployer", Args: env.Args("TEXT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req.Text = args[0]
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Memories.RecallMemories(cmd.Context(), req)
			if err != nil {
				return err
			}
			var found []entry
			for _, hit := range res.GetHits() {
				found = append(found, hit.GetMemory())
			}
			if len(found) == 0 {
				e.Notef("nothing fits: use other words, or list all with: deckhand memory list")
			}
			return output.List(e.Printer(), noun(e), found)
		},
	}
	cmd.Flags().StringVar(&req.AgentId, "agent", "", "also what belongs to this agent")
	cmd.Flags().Int32Var(&req.Limit, "limit", 0, "at most this many entries; 10 by default")
	return cmd
}

func historyCommand(e *env.Env) *cobra.Command {
	type version = *deckhandv1.MemoryVersion
	return &cobra.Command{
		Use: "history MEMORY", Short: "List the versions of an entry", Example: "deckhand memory history memory_3q9", Args: env.Args("MEMORY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			versions := output.Noun[version]{
				Name: func(v version) string { return fmt.Sprint(v.GetVersion()) },
				Columns: []output.Column[version]{
					{Header: "version", Value: func(v version) string { return fmt.Sprint(v.GetVersion()) }},
					{Header: "value", Value: func(v version) string { return output.Shorten(oneLine(output.Text(v.GetValue())), 80) }},
					{Header: "by", Value: func(v version) string {
						return source(&deckhandv1.Memory{Source: v.GetSource(), Untrusted: v.GetUntrusted(), ConfirmedBy: "x"})
					}},
					{Header: "age", Value: func(v version) string { return e.Age(v.GetCreatedAt()) }},
				},
			}
			return env.List(cmd, e, versions, "", client.Memories.ListMemoryVersions, func(token string) *deckhandv1.ListMemoryVersionsRequest {
				return &deckhandv1.ListMemoryVersionsRequest{MemoryId: args[0], PageToken: token}
			}, (*deckhandv1.ListMemoryVersionsResponse).GetVersions)
		},
	}
}

func deleteCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "delete MEMORY...", Short: "Delete entries", Long: "No run gets a deleted entry any more. For 30 days it can be restored.",
		Example: "deckhand memory delete memory_3q9", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Memories.DeleteMemories(cmd.Context(), &deckhandv1.DeleteMemoriesRequest{MemoryIds: args})
			if err != nil {
				return err
			}
			for _, id := range res.GetMemoryIds() {
				e.Notef("deleted; to restore it: deckhand memory restore %s", id)
			}
			return nil
		},
	}
}

func restoreCommand(e *env.Env) *cobra.Command {
	req := &deckhandv1.RestoreMemoriesRequest{}
	cmd := &cobra.Command{
		Use: "restore MEMORY...", Short: "Restore deleted entries, or an earlier version of one",
		Example: "deckhand memory restore memory_3q9\ndeckhand memory restore memory_3q9 --version 2", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			req.MemoryIds = args
			res, err := client.Memories.RestoreMemories(cmd.Context(), req)
			if err != nil {
				return err
			}
			return output.List(e.Printer(), noun(e), res.GetMemories())
		},
	}
	cmd.Flags().Int32Var(&req.Version, "version", 0, "store the value of this version again")
	return cmd
}

func confirmCommand(e *env.Env) *cobra.Command {
	req := &deckhandv1.ConfirmMemoriesRequest{}
	version := int32(0)
	cmd := &cobra.Command{
		Use: "confirm MEMORY", Short: "Answer for an entry that an agent wrote",
		Long: `An instruction that an agent wrote becomes a standing one, and what it wrote after it had
read untrusted text is told to runs. Read the entry first, and give the version that you
read: deckhand memory get MEMORY. A run may have replaced it since, and then nothing is
confirmed.`,
		Example: "deckhand memory confirm memory_3q9 --version 2\ndeckhand memory confirm memory_3q9 --version 2 --share", Args: env.Args("MEMORY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if version < 1 {
				return env.Usage(cmd, "--version is needed: the version that you read with deckhand memory get %s", args[0])
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			req.MemoryIds, req.Versions = args, []int32{version}
			res, err := client.Memories.ConfirmMemories(cmd.Context(), req)
			if err != nil {
				return err
			}
			return output.List(e.Printer(), noun(e), res.GetMemories())
		},
	}
	cmd.Flags().Int32Var(&version, "version", 0, "the version that you read; needed")
	cmd.Flags().BoolVar(&req.Share, "share", false, "also give it to the runs of all who read the agent's memory")
	return cmd
}

func purgeCommand(e *env.Env) *cobra.Command {
	req := &deckhandv1.PurgeMemoriesRequest{}
	yes := false
	cmd := &cobra.Command{
		Use: "purge", Short: "Delete everything that is kept of a user's memory, without a way back",
		Long: `Deletes the entries of the user's own scope and those that only their runs read, all
versions, and the transcripts of the user's tasks that called the memory's tools or were told
such entries. It is refused while such a task goes on.
Tasks on legal hold keep theirs. Users purge their own memory, administrators anybody's.
Backups that were made before keep what they have.`,
		Example: "deckhand memory purge --user alice --yes", Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !yes {
				return env.Usage(cmd, "this cannot be undone; say --yes to do it")
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Memories.PurgeMemories(cmd.Context(), req)
			if err != nil {
				return err
			}
			e.Notef("deleted %d entries with %d versions, what %d tool calls said, and %d verdicts on entries of others", res.GetMemories(), res.GetVersions(), res.GetSteps(), res.GetVerdicts())
			return nil
		},
	}
	cmd.Flags().StringVar(&req.UserId, "user", "", "whose; your own by default")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	return cmd
}
