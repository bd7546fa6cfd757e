// Package search is the command "deckhand search": it finds words in the histories of
// all tasks that the user sees.
package search

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// most is how many results the hub returns at once.
const most = 100

// Command returns the command "deckhand search".
func Command(e *env.Env) *cobra.Command {
	limit := 20
	request := &deckhandv1.SearchHistoryRequest{}
	cmd := &cobra.Command{
		Use: "search WORD...", Short: "Find words in tasks, commands, results and messages",
		Long: `Finds words in the titles, goals and results of tasks, in the arguments of
calls, in what calls returned to the agent, and in messages, questions and
replies, the newest first.

All words have to occur in one text, in any case; a word also finds longer ones
that begin with it. Words in double quotes have to follow one another. Filters:
agent:, tool:, in: (task, call, output or message), task:, state:,
cost:>DOLLARS, after: and before: (a day, UTC).

Of a command's output its beginning and its end are found, which the agent was
given. All of one output is searched by: deckhand node logs NODE STEP --search WORD`,
		Example: `deckhand search timeout
deckhand search '"no space left" agent:coder in:output'
deckhand search deploy tool:shell_exec after:2026-11-01 --limit 100`,
		Args: env.Args("WORD..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return env.Usage(cmd, "--limit is %d, give 0 for all or a positive number", limit)
			}
			request.Query = strings.Join(args, " ")
			return run(e, cmd, request, limit)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "maximum number of items (0 = all)")
	cmd.Flags().StringVar(&request.PageToken, "page", "", "continue from this page token")
	return cmd
}

func run(e *env.Env, cmd *cobra.Command, request *deckhandv1.SearchHistoryRequest, limit int) error {
	client, err := e.Client()
	if err != nil {
		return err
	}
	var until *timestamppb.Timestamp
	hits, next, err := env.Newest(cmd.Context(), limit, request.GetPageToken(), client.History.SearchHistory, request,
		func(size int32, token string) { request.PageSize, request.PageToken = min(size, most), token },
		func(res *deckhandv1.SearchHistoryResponse) []*deckhandv1.SearchHit {
			until = cmp.Or(until, res.GetIndexedUntil())
			return res.GetHits()
		})
	if err != nil {
		return err
	}
	if until != nil {
		e.Notef("The index is being built: what happened since %s is not found yet.", output.Moment(until))
	}
	if err := output.List(e.Printer(), noun(), hits); err != nil {
		return err
	}
	if len(hits) == 0 {
		e.Notef("Nothing found. All words have to occur in one text; try fewer.")
	}
	env.NoteMore(e, len(hits), next)
	return nil
}

func noun() output.Noun[*deckhandv1.SearchHit] {
	return output.Noun[*deckhandv1.SearchHit]{
		Name: func(x *deckhandv1.SearchHit) string { return cmp.Or(x.GetStepId(), x.GetTaskId()) },
		Columns: []output.Column[*deckhandv1.SearchHit]{
			{Header: "time", Value: func(x *deckhandv1.SearchHit) string { return output.Moment(x.GetTime()) }},
			{Header: "task", Value: (*deckhandv1.SearchHit).GetTaskId},
			{Header: "agent", Value: (*deckhandv1.SearchHit).GetAgentName},
			{Header: "where", Value: where},
			{Header: "found", Value: excerpt, Max: 100},
			{Header: "step", Value: (*deckhandv1.SearchHit).GetStepId, Wide: true},
			{Header: "title", Value: (*deckhandv1.SearchHit).GetTaskTitle, Wide: true},
		},
	}
}

func where(x *deckhandv1.SearchHit) string {
	kind := output.EnumName(x.GetKind())
	switch {
	case x.GetStepNumber() > 0:
		return fmt.Sprintf("%s of step %d", kind, x.GetStepNumber())
	case x.GetSaidBy() != "":
		return kind + " of " + x.GetSaidBy()
	}
	return kind
}

// excerpt returns what was found on one line, from a little before the first word that
// was looked for: the beginning of a line is what is seen.
func excerpt(x *deckhandv1.SearchHit) string {
	const before = 20
	var out strings.Builder
	for i, p := range x.GetExcerpt() {
		text := p.GetText()
		if next := i + 1; !p.GetMatch() && out.Len() == 0 && next < len(x.GetExcerpt()) && x.GetExcerpt()[next].GetMatch() {
			if runes := []rune(text); len(runes) > before {
				text = "…" + string(runes[len(runes)-before:])
			}
		}
		if text == "…" && out.Len() == 0 {
			continue
		}
		out.WriteString(text)
	}
	return strings.Join(strings.Fields(out.String()), " ")
}
