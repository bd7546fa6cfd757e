package file

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// ReadArtifacts reads TASK:PATH for each, those of one task together; shared are
// given for reading only.
func ReadArtifacts(cmd *cobra.Command, flag string, specs []string, shared bool) (out []*deckhandv1.TaskArtifacts, err error) {
	for _, spec := range specs {
		task, path, ok := strings.Cut(spec, ":")
		if !ok || task == "" || path == "" {
			return nil, env.Usage(cmd, "--%s is %q, give TASK:PATH", flag, spec)
		}
		at := slices.IndexFunc(out, func(a *deckhandv1.TaskArtifacts) bool { return a.GetFromTaskId() == task })
		if at < 0 {
			at = len(out)
			out = append(out, &deckhandv1.TaskArtifacts{FromTaskId: task, Shared: shared})
		}
		out[at].Paths = append(out[at].Paths, path)
	}
	return out, nil
}

func workspaceRef(owner, ref, node string) *deckhandv1.WorkspaceRef {
	out := &deckhandv1.WorkspaceRef{NodeId: node, Workspace: &deckhandv1.WorkspaceRef_AgentId{AgentId: ref}}
	if owner == "task" {
		out.Workspace = &deckhandv1.WorkspaceRef_TaskId{TaskId: ref}
	}
	return out
}

// ArtifactNoun shows transfers of files between tasks.
func ArtifactNoun(e *env.Env) output.Noun[*deckhandv1.ArtifactTransfer] {
	type transfer = *deckhandv1.ArtifactTransfer
	return output.Noun[transfer]{
		Name: transfer.GetId,
		Columns: []output.Column[transfer]{
			{Header: "from", Value: transfer.GetFromTaskId},
			{Header: "to", Value: transfer.GetToTaskId},
			{Header: "state", Value: transfer.GetState},
			{Header: "how", Value: func(x transfer) string {
				if x.GetShared() {
					return "shared"
				}
				return "copied"
			}},
			{Header: "folder", Value: transfer.GetFolder, Max: 60},
			{Header: "files", Value: func(x transfer) string { return fmt.Sprint(x.GetFiles()) }},
			{Header: "size", Value: func(x transfer) string { return output.Size(x.GetBytes()) }},
			{Header: "missing", Value: func(x transfer) string { return strings.Join(x.GetMissing(), " ") }, Max: 60},
			{Header: "age", Value: func(x transfer) string { return e.Age(x.GetCreatedAt()) }},
			{Header: "id", Value: transfer.GetId, Wide: true},
			{Header: "by", Value: transfer.GetCreatedBy, Wide: true},
			{Header: "paths", Value: func(x transfer) string { return strings.Join(x.GetPaths(), " ") }, Wide: true},
		},
	}
}
