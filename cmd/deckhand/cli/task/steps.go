package task

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func stepNoun() output.Noun[*deckhandv1.Step] {
	return output.Noun[*deckhandv1.Step]{
		Name: (*deckhandv1.Step).GetId,
		Columns: []output.Column[*deckhandv1.Step]{
			{Header: "#", Value: func(x *deckhandv1.Step) string { return fmt.Sprint(x.GetNumber()) }},
			{Header: "id", Value: (*deckhandv1.Step).GetId},
			{Header: "tool", Value: (*deckhandv1.Step).GetTool},
			{Header: "state", Value: func(x *deckhandv1.Step) string { return output.EnumName(x.GetState()) },
				Style: func(x *deckhandv1.Step) lipgloss.Style { return output.StepStyle(x.GetState()) }},
			{Header: "took", Value: func(x *deckhandv1.Step) string { return output.Took(x.GetStartedAt(), x.GetFinishedAt()) }},
			{Header: "log", Value: func(x *deckhandv1.Step) string { return output.Size(x.GetLogBytes()) }},
			{Header: "arguments", Value: func(x *deckhandv1.Step) string { return output.Arguments(x.GetArguments()) }, Max: 60},
			{Header: "exit", Value: func(x *deckhandv1.Step) string { return output.Field(x.GetOutcome(), "exit_code") }, Wide: true},
			{Header: "refused", Value: refusedHosts, Wide: true},
			{Header: "error", Value: (*deckhandv1.Step).GetErrorCode, Wide: true},
			{Header: "decision", Value: (*deckhandv1.Step).GetDecisionReason, Wide: true},
			{Header: "rule", Value: func(x *deckhandv1.Step) string { return x.GetDecision().GetRule() }, Wide: true},
			{Header: "policy", Value: func(x *deckhandv1.Step) string { return x.GetDecision().GetVersion() }, Wide: true},
			{Header: "attempt", Value: func(x *deckhandv1.Step) string { return fmt.Sprint(x.GetAttempt()) }, Wide: true},
			{Header: "observation", Value: (*deckhandv1.Step).GetObservation, Wide: true},
		},
	}
}

// refusedHosts returns the hosts that a step's command wanted to reach and may
// not.
func refusedHosts(x *deckhandv1.Step) string {
	var hosts []string
	for _, value := range x.GetOutcome().GetFields()["egress"].GetStructValue().GetFields()["refused"].GetListValue().GetValues() {
		hosts = append(hosts, termsafe.Line(output.Field(value.GetStructValue(), "host")))
	}
	return strings.Join(hosts, " ")
}

func stepsCommand(e *env.Env) *cobra.Command {
	var images string
	cmd := &cobra.Command{
		Use: "steps TASK", Short: "List a task's steps: its tool calls", Example: "deckhand task steps task_3q9\ndeckhand task steps task_3q9 --images pictures",
		Args: env.Args("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			steps, err := client.Steps(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if len(steps) == 0 {
				e.Notef("no steps yet; see what it is doing: deckhand task watch %s", args[0])
			}
			if images != "" {
				if err := saveImages(cmd.Context(), e, client, steps, images); err != nil {
					return err
				}
			}
			return output.List(e.Printer(), stepNoun(), steps)
		},
	}
	cmd.Flags().StringVar(&images, "images", "", "folder to write the images of the steps to, such as screenshots")
	return cmd
}

// saveImages writes the images of steps into a folder, as NUMBER-TOOL-PLACE.png.
func saveImages(ctx context.Context, e *env.Env, client *sdk.Client, steps []*deckhandv1.Step, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // as a shell would make it
		return fmt.Errorf("--images: %w", err)
	}
	written := 0
	for _, step := range steps {
		// Those for the model, and those that show people what was acted on.
		if fields := step.GetOutcome().GetFields(); fields["images"].GetNumberValue()+fields["pictures"].GetNumberValue() == 0 {
			continue
		}
		res, err := client.Tasks.ListSteps(ctx, &deckhandv1.ListStepsRequest{TaskId: step.GetTaskId(), StepId: step.GetId(), Images: true})
		if err != nil {
			return err
		}
		for _, one := range res.GetSteps() {
			for i, image := range one.GetImages() {
				// The tool of an MCP server has a name that its operator chose.
				tool := strings.Map(func(r rune) rune {
					if r == '/' || r == os.PathSeparator || r < ' ' {
						return '_'
					}
					return r
				}, one.GetTool())
				name := fmt.Sprintf("%03d-%s-%d.%s", one.GetNumber(), tool, i+1, ending(image.GetMediaType()))
				if err := os.WriteFile(filepath.Join(folder, name), image.GetData(), 0o644); err != nil { //nolint:gosec // as a shell would make it
					return fmt.Errorf("--images: %w", err)
				}
				written++
			}
		}
	}
	e.Notef("%d images are in %s", written, folder)
	return nil
}

// ending returns the ending of the names of images of a type.
func ending(mediaType string) string {
	if name, ok := map[string]string{"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}[mediaType]; ok {
		return name
	}
	return "image"
}
