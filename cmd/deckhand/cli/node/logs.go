package node

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/internal/asciicast"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// logsOptions are the flags of node logs.
type logsOptions struct {
	since   string
	cast    string
	request *deckhandv1.ReadNodeLogRequest
	search  *deckhandv1.SearchNodeLogRequest
}

func logsCommand(e *env.Env) *cobra.Command {
	o := logsOptions{request: &deckhandv1.ReadNodeLogRequest{}, search: &deckhandv1.SearchNodeLogRequest{}}
	cmd := &cobra.Command{
		Use: "logs NODE EXEC|STEP", Short: "Print the output of a command, terminal or step",
		Long: `Prints what a command wrote, from the node that ran it, standard output and
standard error apart; secrets are masked with as many bytes as they have. On a
terminal, control characters and escape sequences are made harmless.

--search looks for a text on the node itself, so that a large log does not
travel. --asciicast writes a terminal's recording in the format of asciinema
(asciicast v3), for players.`,
		Example: `deckhand node logs web-1 nexec_3q9 --since 10m --follow
deckhand node logs web-1 step_7bc --tail 100
deckhand node logs web-1 step_7bc --search "out of memory"
deckhand node logs web-1 nexec_3q9 --asciicast session.cast`,
		Args: env.Args("NODE", "EXEC|STEP"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.request.NodeId, o.request.ExecId = args[0], args[1]
			if o.since != "" {
				from, err := sinceTime(o.since, e.Now())
				if err != nil {
					return env.Usage(cmd, "%s", err)
				}
				o.request.Since = timestamppb.New(from)
			}
			begins := 0
			for _, flag := range []string{"since", "tail", "offset"} {
				if cmd.Flags().Changed(flag) {
					begins++
				}
			}
			searching := o.search.GetPattern() != ""
			switch {
			case begins > 1:
				return env.Usage(cmd, "give one of --since, --tail and --offset")
			case searching && (begins > 0 || o.request.GetFollow()):
				return env.Usage(cmd, "--search looks through the whole log: leave the others out")
			case o.cast != "" && (begins > 0 || searching):
				return env.Usage(cmd, "--asciicast is of the whole recording: leave the others out")
			case !searching && !e.Format.ForPeople():
				return env.Usage(cmd, "output is bytes, which -o %s cannot show", e.Format)
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			switch {
			case searching:
				o.search.NodeId, o.search.ExecId = args[0], args[1]
				return searchNodeLog(cmd.Context(), e, client, o.search)
			case o.cast != "":
				return writeCast(cmd.Context(), e, client, o.request, o.cast)
			}
			out := newOutputs(e)
			if err := copyLog(cmd.Context(), e, client, o.request, out.piece); err != nil {
				return err
			}
			return out.close()
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&o.request.Follow, "follow", "f", false, "go on until the command has ended")
	flags.StringVar(&o.since, "since", "", "begin with what was written then: 10m ago, or a time as 2006-01-02T15:04:05Z")
	flags.Int64Var(&o.request.TailLines, "tail", 0, "begin with the last so many lines")
	flags.Int64Var(&o.request.Offset, "offset", 0, "begin at this byte")
	flags.StringVar(&o.search.Pattern, "search", "", "show only the places with this text")
	flags.BoolVarP(&o.search.Regexp, "regexp", "E", false, "the text of --search is an expression (RE2)")
	flags.BoolVar(&o.search.IgnoreCase, "ignore-case", false, "--search takes capitals and small letters for the same")
	flags.Int32VarP(&o.search.ContextLines, "context", "C", 0, "lines to show before and after each place")
	flags.StringVar(&o.cast, "asciicast", "", "write a terminal's recording to this file, - for standard output")
	return cmd
}

// sinceTime reads a time, or how long ago it was.
func sinceTime(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, fmt.Errorf("--since %q is neither a time such as 2006-01-02T15:04:05Z nor a duration such as 10m", text)
	}
	return t, nil
}

// copyLog passes a log's pieces to show. If the stream breaks, it resumes after the
// last byte that it received.
func copyLog(ctx context.Context, e *env.Env, client *sdk.Client, request *deckhandv1.ReadNodeLogRequest,
	show func(*deckhandv1.ReadNodeLogResponse) error,
) error {
	broken := func(err error) bool { return env.BrokenStream(err) || fault.Is(err, fault.Unavailable) }
	return env.Resume(ctx, &request.Offset, request.GetFollow(), broken, func() error {
		return copyLogOnce(ctx, e, client, request, show)
	})
}

func copyLogOnce(ctx context.Context, e *env.Env, client *sdk.Client, request *deckhandv1.ReadNodeLogRequest,
	show func(*deckhandv1.ReadNodeLogResponse) error,
) error {
	stream, err := client.NodeExecs.ReadNodeLog(ctx, request)
	if err != nil {
		return fault.FromConnect(err)
	}
	defer func() { _ = stream.Close() }()
	for stream.Receive() {
		piece := stream.Msg()
		// From here on the log is taken up again by offset.
		request.Since, request.TailLines = nil, 0
		if to := piece.GetGapTo(); to > 0 {
			e.Notef("%s", output.Dim.Render(fmt.Sprintf("(%s of output are not there: %s)", output.Size(to-piece.GetOffset()), piece.GetGapReason())))
			request.Offset = to
			continue
		}
		if err := show(piece); err != nil {
			return err
		}
		request.Offset = piece.GetOffset() + int64(len(piece.GetData()))
	}
	return fault.FromConnect(stream.Err())
}

func searchNodeLog(ctx context.Context, e *env.Env, client *sdk.Client, request *deckhandv1.SearchNodeLogRequest) error {
	found := 0
	for {
		res, err := client.NodeExecs.SearchNodeLog(ctx, request)
		if err != nil {
			return err
		}
		for _, m := range res.GetMatches() {
			found++
			if err := output.Entry(e.Printer(), matchNoun, m); err != nil {
				return err
			}
		}
		if res.GetComplete() || res.GetNextOffset() <= request.GetOffset() {
			break
		}
		request.Offset = res.GetNextOffset()
	}
	if found == 0 {
		return env.Failed(env.ExitFailed, fault.New(fault.NotFound, "nothing in the log of %s matches", request.GetExecId()))
	}
	return nil
}

var matchNoun = output.Noun[*deckhandv1.NodeLogMatch]{
	Name: func(x *deckhandv1.NodeLogMatch) string { return fmt.Sprint(x.GetOffset()) },
	Columns: []output.Column[*deckhandv1.NodeLogMatch]{
		{Header: "offset", Value: func(x *deckhandv1.NodeLogMatch) string { return fmt.Sprint(x.GetOffset()) }},
		{Header: "time", Value: func(x *deckhandv1.NodeLogMatch) string { return output.Moment(x.GetTime()) }},
		{Header: "stream", Value: (*deckhandv1.NodeLogMatch).GetStream},
		{Header: "text", Value: func(x *deckhandv1.NodeLogMatch) string { return string(x.GetExcerpt()) }},
	},
}

// writeCast writes a terminal's recording.
func writeCast(ctx context.Context, e *env.Env, client *sdk.Client, request *deckhandv1.ReadNodeLogRequest, path string) (err error) {
	res, err := client.NodeExecs.GetNodeExec(ctx, &deckhandv1.GetNodeExecRequest{ExecId: request.GetExecId()})
	if err != nil {
		return err
	}
	exec, out := res.GetExec(), e.Out
	if path != "-" {
		file, err := os.Create(path)
		if err != nil {
			return env.Failed(env.ExitUsage, fault.New(fault.Invalid, "cannot write %s: %v", path, err))
		}
		defer func() {
			if cerr := file.Close(); err == nil {
				err = cerr
			}
		}()
		out = file
	}
	cast := asciicast.NewWriter(out, asciicast.Header{
		Begin: exec.GetStartedAt().AsTime(), Title: fmt.Sprintf("%s on %s by %s", exec.GetId(), exec.GetNodeName(), exec.GetCreatedBy()),
	})
	if err := copyLog(ctx, e, client, request, func(p *deckhandv1.ReadNodeLogResponse) error {
		if s := p.GetResize(); s != nil {
			return cast.Resize(p.GetTime().AsTime(), s.GetCols(), s.GetRows())
		}
		return cast.Output(p.GetTime().AsTime(), p.GetData())
	}); err != nil {
		return err
	}
	if exec.GetState() == deckhandv1.NodeExecState_NODE_EXEC_STATE_ENDED && exec.GetEndReason() == "exited" {
		return cast.Exit(exec.GetFinishedAt().AsTime(), int(exec.GetExitCode()))
	}
	return cast.Close()
}
