// Package knowledge is the command "deckhand knowledge": it manages collections of documents
// and searches them.
package knowledge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// Command returns the command "deckhand knowledge".
func Command(e *env.Env) *cobra.Command {
	cmd := env.Group("knowledge", "Manage and search collections of documents", `
A collection has documents from files that you upload, a folder of an agent's
workspace, a folder of a machine, a Git repository or a web page. You search it with
"deckhand knowledge search", and agents with the tool rag_query. Both find only what
you may see.
`, `
deckhand knowledge add handbook leave.md expenses.pdf
deckhand knowledge search "how many days of leave"
`)
	cmd.AddCommand(addCommand(e), listCommand(e), showCommand(e), documentsCommand(e), syncCommand(e), searchCommand(e), openCommand(e), embedCommand(e), removeCommand(e))
	return cmd
}

func noun(e *env.Env) output.Noun[*deckhandv1.Collection] {
	return output.Noun[*deckhandv1.Collection]{
		Name: (*deckhandv1.Collection).GetName,
		Columns: []output.Column[*deckhandv1.Collection]{
			{Header: "name", Value: (*deckhandv1.Collection).GetName},
			{Header: "scope", Value: func(x *deckhandv1.Collection) string { return output.EnumName(x.GetScope().GetKind()) }},
			{Header: "documents", Value: func(x *deckhandv1.Collection) string { return fmt.Sprint(x.GetDocuments()) }},
			{Header: "passages", Value: func(x *deckhandv1.Collection) string { return fmt.Sprint(x.GetPassages()) }},
			{Header: "sync", Value: func(x *deckhandv1.Collection) string { return syncWord(e, x.GetSync()) }, Max: 60},
			{Header: "description", Value: (*deckhandv1.Collection).GetDescription, Max: 60},
			{Header: "id", Value: (*deckhandv1.Collection).GetId, Wide: true},
		},
	}
}

// syncWord returns how the last sync of a collection went.
func syncWord(e *env.Env, s *deckhandv1.KnowledgeSync) string {
	switch s.GetState() {
	case deckhandv1.KnowledgeSyncState_KNOWLEDGE_SYNC_STATE_RUNNING:
		return "running"
	case deckhandv1.KnowledgeSyncState_KNOWLEDGE_SYNC_STATE_SUCCEEDED:
		return e.Age(s.GetEndedAt()) + " ago"
	case deckhandv1.KnowledgeSyncState_KNOWLEDGE_SYNC_STATE_FAILED:
		return "failed: " + s.GetError()
	}
	return "never"
}

func listCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the collections that you see", Example: "deckhand knowledge list", Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.List(cmd, e, noun(e), "there is no collection; add documents with: deckhand knowledge add NAME FILE...", client.Knowledge.ListCollections,
				func(token string) *deckhandv1.ListCollectionsRequest {
					return &deckhandv1.ListCollectionsRequest{PageToken: token}
				},
				(*deckhandv1.ListCollectionsResponse).GetCollections)
		},
	}
}

func sourceNoun(e *env.Env) output.Noun[*deckhandv1.KnowledgeSource] {
	return output.Noun[*deckhandv1.KnowledgeSource]{
		Name: (*deckhandv1.KnowledgeSource).GetId,
		Columns: []output.Column[*deckhandv1.KnowledgeSource]{
			{Header: "id", Value: (*deckhandv1.KnowledgeSource).GetId},
			{Header: "kind", Value: func(x *deckhandv1.KnowledgeSource) string { return output.EnumName(x.GetKind()) }},
			{Header: "where", Value: where, Max: 80},
			{Header: "documents", Value: func(x *deckhandv1.KnowledgeSource) string { return fmt.Sprint(x.GetDocuments()) }},
			{Header: "synced", Value: func(x *deckhandv1.KnowledgeSource) string { return e.Age(x.GetSyncedAt()) }},
			{Header: "problem", Value: func(x *deckhandv1.KnowledgeSource) string {
				if x.GetError() != "" {
					return x.GetError()
				}
				return x.GetNote()
			}, Max: 100},
		},
	}
}

// where returns what a source reads.
func where(x *deckhandv1.KnowledgeSource) string {
	switch x.GetKind() {
	case deckhandv1.KnowledgeSourceKind_KNOWLEDGE_SOURCE_KIND_WORKSPACE:
		return x.GetAgentName() + ":/" + x.GetPath()
	case deckhandv1.KnowledgeSourceKind_KNOWLEDGE_SOURCE_KIND_NODE:
		return x.GetNodeName() + ":" + x.GetPath()
	}
	return x.GetUrl()
}

func showCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "show COLLECTION", Short: "Show a collection with its sources", Example: "deckhand knowledge show handbook", Args: env.Args("COLLECTION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Knowledge.GetCollection(cmd.Context(), &deckhandv1.GetCollectionRequest{CollectionId: args[0]})
			if err != nil {
				return err
			}
			if err := output.One(e.Printer(), noun(e), res.GetCollection()); err != nil || !e.Format.ForPeople() || len(res.GetSources()) == 0 {
				return err
			}
			fmt.Fprintln(e.Out)
			return output.List(e.Printer(), sourceNoun(e), res.GetSources())
		},
	}
}

func documentsCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "documents COLLECTION", Short: "List the documents of a collection, and files that were skipped",
		Example: "deckhand knowledge documents handbook", Args: env.Args("COLLECTION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.List(cmd, e, output.Noun[*deckhandv1.KnowledgeDocument]{
				Name: (*deckhandv1.KnowledgeDocument).GetPath,
				Columns: []output.Column[*deckhandv1.KnowledgeDocument]{
					{Header: "path", Value: (*deckhandv1.KnowledgeDocument).GetPath, Max: 80},
					{Header: "format", Value: (*deckhandv1.KnowledgeDocument).GetFormat},
					{Header: "size", Value: func(x *deckhandv1.KnowledgeDocument) string { return output.Size(x.GetBytes()) }},
					{Header: "passages", Value: func(x *deckhandv1.KnowledgeDocument) string { return fmt.Sprint(x.GetPassages()) }},
					{Header: "skipped", Value: (*deckhandv1.KnowledgeDocument).GetSkipped, Max: 80},
					{Header: "title", Value: (*deckhandv1.KnowledgeDocument).GetTitle, Wide: true},
				},
			}, "the collection has no documents; see how its last sync went: deckhand knowledge show "+args[0], client.Knowledge.ListDocuments,
				func(token string) *deckhandv1.ListDocumentsRequest {
					return &deckhandv1.ListDocumentsRequest{CollectionId: args[0], PageToken: token}
				}, (*deckhandv1.ListDocumentsResponse).GetDocuments)
		},
	}
}

func syncCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "sync COLLECTION", Short: "Bring a collection up to date with its sources",
		Long: `Reads the files that are new or that changed, and removes documents whose file is
gone. It waits for the end; interrupting it does not stop the sync.`,
		Example: "deckhand knowledge sync handbook", Args: env.Args("COLLECTION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return syncNow(cmd.Context(), e, client, args[0])
		},
	}
}

// lookEvery is how often the progress of a sync is looked at.
const lookEvery = 500 * time.Millisecond

// syncNow syncs a collection, waits for the end and prints the collection.
func syncNow(ctx context.Context, e *env.Env, client *sdk.Client, ref string) error {
	begun, err := client.Knowledge.SyncCollection(ctx, &deckhandv1.SyncCollectionRequest{CollectionId: ref})
	if err != nil {
		return err
	}
	said := ""
	for {
		res, err := client.Knowledge.GetCollection(ctx, &deckhandv1.GetCollectionRequest{CollectionId: ref})
		if err != nil {
			return err
		}
		s := res.GetCollection().GetSync()
		if s.GetId() != begun.GetSync().GetId() {
			return errors.New("another sync has begun meanwhile")
		}
		if s.GetState() != deckhandv1.KnowledgeSyncState_KNOWLEDGE_SYNC_STATE_RUNNING {
			e.Notef("%d files: %d added, %d changed, %d removed, %d skipped", s.GetFiles(), s.GetAdded(), s.GetChanged(), s.GetRemoved(), s.GetSkipped())
			if s.GetState() == deckhandv1.KnowledgeSyncState_KNOWLEDGE_SYNC_STATE_FAILED {
				return env.Failed(env.ExitFailed, fault.New(fault.Precondition, "the sync failed: %s", s.GetError()).WithFix("see the sources with: deckhand knowledge show %s", ref))
			}
			for _, source := range res.GetSources() {
				if source.GetNote() != "" {
					e.Notef("%s (%s): %s", output.EnumName(source.GetKind()), where(source), source.GetNote())
				}
			}
			return output.Brief(e.Printer(), noun(e), res.GetCollection())
		}
		if now := fmt.Sprintf("%s: %d files, %d passages", s.GetPhase(), s.GetFiles(), s.GetPassages()); s.GetPhase() != "" && now != said {
			e.Notef("%s", now)
			said = now
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookEvery):
		}
	}
}
