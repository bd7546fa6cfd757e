package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Skills reduce data in the jail: they run deckhand-skill there, and the model gets its
// result, which cites where everything was read.

const (
	skillTimeout = 2 * time.Minute
	// maxAnswer is more than an answer of 64 kB is as JSON.
	maxAnswer = 1 << 20
)

func skillTools() []*Tool {
	skill := func(name, description, required, properties string) *Tool {
		return &Tool{
			Name: name, Description: description,
			Category: deckhandv1.ToolCategory_TOOL_CATEGORY_SAFE, Place: deckhandv1.ToolPlace_TOOL_PLACE_NODE,
			Idempotent: true, ReadOnly: true, Timeout: skillTimeout, runs: true,
			schema: `{"type":"object","additionalProperties":false,"required":[` + required + `],"properties":{` + properties + `,
				"max_bytes":{"type":"integer","minimum":512,"maximum":65536,"description":"How long the answer may be"}}}`,
			run: func(ctx context.Context, c Call) (Result, error) { return runSkill(ctx, name, c) },
		}
	}
	return []*Tool{
		skill(toolname.LogDigest,
			"Digest a log of any size without reading it yourself: the kinds of lines with counts, first and last time, errors first, "+
				"what is new, rare, or came in bursts, each with file, line and a sample. Reads rotated and gzip files too.",
			`"path"`, `"path":{"type":"string","minLength":1,"maxLength":4096,"description":"A log file (with those it was rotated into), a folder of logs, or a pattern such as /var/log/nginx/*.log"},
			"since":{"type":"string","maxLength":40,"description":"Only lines from this time on, like 2026-01-02T15:04:05Z"},
			"until":{"type":"string","maxLength":40,"description":"Only lines up to this time"},
			"contains":{"type":"string","maxLength":1000,"description":"Only lines with this text, for example a request id"}`),
		skill(toolname.SemanticGrep,
			"Find where in a source tree something is, asked in words: a few places with file:line, best first. Matches words inside "+
				"identifiers and by their stems, ranks definitions first, skips binary, generated and ignored files.",
			`"query"`, `"query":{"type":"string","minLength":1,"maxLength":1000,"description":"What you look for, in words or identifiers: where are expired leases requeued"},
			"path":{"type":"string","maxLength":4096,"description":"Folder or file; the workspace by default"},
			"include":{"type":"string","maxLength":200,"description":"Only files with names like this, such as *.go"},
			"results":{"type":"integer","minimum":1,"maximum":40,"description":"How many places; 8 by default"}`),
		skill(toolname.FileOutline,
			"List what a file defines (functions, types, sections, tables), each with its line, so that you can read a part of it.",
			`"path"`, skillPath),
		skill(toolname.JSONQuery,
			"Run a jq query over a JSON or JSON Lines file of any length. Each result cites the line it comes from.",
			`"path","query"`, skillPath+`,
			"query":{"type":"string","minLength":1,"maxLength":10000,"description":"In the language of jq: .items[] | select(.status >= 500) | .id"}`),
		skill(toolname.CSVProfile,
			"Profile a CSV or TSV file of any length: columns, kinds of values, empty and different ones, least, greatest, most common, and rows that do not fit.",
			`"path"`, skillPath+`,
			"delimiter":{"type":"string","maxLength":4,"description":"One character; found out by default"},
			"no_header":{"type":"boolean","description":"The first line is data"}`),
		skill(toolname.TreeDigest,
			"Summarise a folder of any size: how much of what kind, which folders hold most, the largest and newest files.",
			``, `"path":{"type":"string","maxLength":4096,"description":"The folder; the workspace by default"},
			"all":{"type":"boolean","description":"Count what .gitignore names too"}`),
		skill(toolname.TailStats,
			"Look at the end of a log: how fast it grows, levels, the last errors and the last lines, with byte offsets.",
			`"path"`, skillPath+`,
			"lines":{"type":"integer","minimum":1,"maximum":1000,"description":"How many of the last lines to show; 20 by default"},
			"bytes":{"type":"integer","minimum":1024,"maximum":268435456,"description":"How much of the end to look at; 4 MiB by default"}`),
	}
}

// skillPath is the argument that names a file.
const skillPath = `"path":{"type":"string","minLength":1,"maxLength":4096,"description":"The file"}`

// skillAnswer is what deckhand-skill writes.
type skillAnswer struct {
	Answer    string `json:"answer"`
	BytesRead int64  `json:"bytes_read"`
	Error     string `json:"error"`
}

func runSkill(ctx context.Context, name string, c Call) (Result, error) {
	arguments, err := json.Marshal(c.Arguments)
	if err != nil {
		return Result{}, fmt.Errorf("encode the arguments of %s: %w", name, err)
	}
	return runSkillAs(ctx, c, &nodev1.ExecSpec{
		ExecId: c.ExecID, JailId: c.Jail.GetJailId(), Timeout: durationpb.New(skillTimeout),
		Argv: []string{nodelink.SkillPath, "--json", name, string(arguments)},
	})
}

// runSkillAs runs deckhand-skill, and returns its result.
func runSkillAs(ctx context.Context, c Call, spec *nodev1.ExecSpec) (Result, error) {
	exec, err := execute(ctx, c, spec)
	if err != nil {
		return failure(err)
	}
	var said skillAnswer
	if exec.GetEndReason() == nodev1.EndReason_END_REASON_EXITED && exec.GetLogBytes() <= maxAnswer {
		output, err := readLog(ctx, c, 0, exec.GetLogBytes())
		if err != nil {
			return Result{}, err
		}
		if json.Unmarshal([]byte(output), &said) != nil {
			said = skillAnswer{}
		}
	}
	if said.Answer == "" && said.Error == "" {
		// The command did not end normally: its result says why.
		result, err := shellResult(ctx, c, exec)
		if err == nil && !result.Failed {
			result.Failed, result.Code = true, fault.ToolFailed
		}
		return result, err
	}
	result := Result{
		Observation: said.Answer, LogBytes: exec.GetLogBytes(), Workspace: exec.GetWorkspace(),
		Outcome: map[string]any{"bytes_read": said.BytesRead, "answer_bytes": len(said.Answer)},
	}
	if said.Error != "" {
		result.Failed, result.Code = true, fault.ToolFailed
		result.Observation = fmt.Sprintf("error %s: %s", fault.ToolFailed, said.Error)
	}
	return result, nil
}
