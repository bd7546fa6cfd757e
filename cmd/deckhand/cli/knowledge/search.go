package knowledge

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func passageNoun() output.Noun[*deckhandv1.Passage] {
	line := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	return output.Noun[*deckhandv1.Passage]{
		Name: (*deckhandv1.Passage).GetId,
		Columns: []output.Column[*deckhandv1.Passage]{
			{Header: "passage", Value: (*deckhandv1.Passage).GetId},
			{Header: "where", Value: (*deckhandv1.Passage).GetCitation, Max: 60},
			{Header: "heading", Value: (*deckhandv1.Passage).GetHeading, Max: 40},
			{Header: "text", Value: func(x *deckhandv1.Passage) string { return line(x.GetText()) }, Max: 80},
			{Header: "found by", Value: func(x *deckhandv1.Passage) string { return strings.Join(x.GetFoundBy(), ", ") }, Wide: true},
		},
	}
}

func searchCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.SearchKnowledgeRequest{}
	cmd := &cobra.Command{
		Use: "search WORD...", Short: "Find passages that fit a question or words",
		Long: `Finds the passages that fit best in all collections that you see, or in those of
--in. Words need not all occur: rare ones count more. A misspelled word finds
similar ones. Read a passage with those around it by: deckhand knowledge open PASSAGE`,
		Example: `deckhand knowledge search "how is a jail frozen"
deckhand knowledge search strings.Builder --in docs --limit 3`,
		Args: env.Args("WORD..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			request.Query = strings.Join(args, " ")
			res, err := client.Knowledge.SearchKnowledge(cmd.Context(), request)
			if err != nil {
				return err
			}
			if res.GetCollections() == 0 {
				e.Notef("you see no collection; add documents with: deckhand knowledge add NAME FILE...")
			} else if len(res.GetPassages()) == 0 {
				e.Notef("nothing found in %d collections: try other words", res.GetCollections())
			}
			if res.GetNote() != "" {
				e.Notef("%s", res.GetNote())
			}
			return output.List(e.Printer(), passageNoun(), res.GetPassages())
		},
	}
	cmd.Flags().StringSliceVar(&request.CollectionIds, "in", nil, "only in this collection (may be repeated)")
	cmd.Flags().Int32Var(&request.Limit, "limit", 10, "maximum number of passages")
	return cmd
}

func openCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.GetPassageRequest{}
	cmd := &cobra.Command{
		Use: "open PASSAGE", Short: "Show a passage with those around it", Example: "deckhand knowledge open 4211 --around 2", Args: env.Args("PASSAGE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			request.PassageId = args[0]
			res, err := client.Knowledge.GetPassage(cmd.Context(), request)
			if err != nil {
				return err
			}
			if !e.Format.ForPeople() {
				return output.List(e.Printer(), passageNoun(), res.GetPassages())
			}
			for i, p := range res.GetPassages() {
				if i > 0 {
					fmt.Fprintln(e.Out)
				}
				title := p.GetCitation()
				if p.GetHeading() != "" {
					title += " (" + p.GetHeading() + ")"
				}
				fmt.Fprintf(e.Out, "%s\n%s\n", termsafe.Line(title), termsafe.Text(p.GetText()))
			}
			return nil
		},
	}
	cmd.Flags().Int32Var(&request.Around, "around", 1, "how many passages before and after it to show")
	return cmd
}

func removeCommand(e *env.Env) *cobra.Command {
	source, upload := "", ""
	cmd := &cobra.Command{
		Use: "remove COLLECTION", Short: "Delete a collection, one of its sources, or an upload",
		Long: `Deletes a collection with its documents, uploads and words, with --source only one
source with its documents, or with --upload only one uploaded file. It cannot be undone;
the documents themselves stay where they are.`,
		Example: `deckhand knowledge remove handbook
deckhand knowledge remove docs --source src_0m2k
deckhand knowledge remove handbook --upload leave.md`,
		Args: env.Args("COLLECTION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			// A variable of a script that is not set must not delete the whole collection.
			for _, name := range []string{"source", "upload"} {
				if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
					return env.Usage(cmd, "--%s is empty", name)
				}
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			if upload != "" {
				_, err = client.Knowledge.RemoveDocument(cmd.Context(), &deckhandv1.RemoveDocumentRequest{CollectionId: args[0], Path: upload})
				return err
			}
			if source != "" {
				_, err = client.Knowledge.RemoveSource(cmd.Context(), &deckhandv1.RemoveSourceRequest{CollectionId: args[0], SourceId: source})
				return err
			}
			_, err = client.Knowledge.DeleteCollection(cmd.Context(), &deckhandv1.DeleteCollectionRequest{CollectionId: args[0]})
			return err
		},
	}
	cmd.Flags().StringVar(&source, "source", "", "remove only this source, by its id")
	cmd.Flags().StringVar(&upload, "upload", "", "remove only this uploaded file, by its `PATH`")
	cmd.MarkFlagsMutuallyExclusive("source", "upload")
	return cmd
}
