package knowledge

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

type embedding = *deckhandv1.KnowledgeEmbedding

func embeddingNoun() output.Noun[embedding] {
	return output.Noun[embedding]{
		Name: func(embedding) string { return "embedding" },
		Columns: []output.Column[embedding]{
			{Header: "model", Value: func(x embedding) string {
				if x.GetProvider() == "" {
					return "none: search is by words"
				}
				return x.GetProvider() + "/" + x.GetModel()
			}},
			{Header: "dimensions", Value: func(x embedding) string { return fmt.Sprint(max(x.GetSize(), x.GetDimensions())) }},
			{Header: "embedded", Value: func(x embedding) string { return fmt.Sprintf("%d of %d passages", x.GetEmbedded(), x.GetPassages()) }},
			{Header: "refused", Value: func(x embedding) string { return fmt.Sprint(x.GetRefused()) }},
			{Header: "problem", Value: embedding.GetError, Max: 100},
		},
	}
}

func embedCommand(e *env.Env) *cobra.Command {
	var off bool
	request := &deckhandv1.SetKnowledgeEmbeddingRequest{}
	cmd := &cobra.Command{
		Use: "embed", Short: "Show or set the model with which knowledge is searched by meaning",
		Long: `Without flags, it shows the model, and how many passages it has embedded.

With --provider and --model, the hub has that model embed all passages of the
organisation, and each question. It sends their text to the provider, also that of
collections of single users, and the calls count in the budgets. With another model
all passages are embedded again. For administrators.`,
		Example: "deckhand knowledge embed\ndeckhand knowledge embed --provider openai --model text-embedding-3-small\ndeckhand knowledge embed --off", Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			set := request.GetProvider() != "" || request.GetModel() != "" || request.GetDimensions() != 0
			switch {
			case off && set:
				return env.Usage(cmd, "give --off alone")
			case set && (request.GetProvider() == "" || request.GetModel() == ""):
				return env.Usage(cmd, "give --provider and --model together")
			case off || set:
				return env.Show(cmd, e, embeddingNoun(), client.Knowledge.SetKnowledgeEmbedding, request, (*deckhandv1.SetKnowledgeEmbeddingResponse).GetEmbedding)
			}
			return env.Show(cmd, e, embeddingNoun(), client.Knowledge.GetKnowledgeEmbedding, &deckhandv1.GetKnowledgeEmbeddingRequest{}, (*deckhandv1.GetKnowledgeEmbeddingResponse).GetEmbedding)
		},
	}
	cmd.Flags().StringVar(&request.Provider, "provider", "", "provider of the model, such as openai, gemini, mistral or ollama")
	cmd.Flags().StringVar(&request.Model, "model", "", "the model, such as text-embedding-3-small")
	cmd.Flags().Int32Var(&request.Dimensions, "dimensions", 0, "how many dimensions vectors have; 0 for the hub's choice")
	cmd.Flags().BoolVar(&off, "off", false, "delete the vectors, and search by words only")
	return cmd
}
