package tool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
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
	// maxAnswer is more than an answer of 64 kB is as JSON, with its pictures.
	maxAnswer = 8 << 20
)

func skillTools() []*Tool {
	skill := func(kind Kind, name, description, required, properties string) *Tool {
		return &Tool{
			Name: name, Description: description, Kind: kind, Returns: Fetched, Expected: 2 * time.Second, Retryable: true,
			Category: deckhandv1.ToolCategory_TOOL_CATEGORY_SAFE, Place: deckhandv1.ToolPlace_TOOL_PLACE_NODE,
			Idempotent: true, ReadOnly: true, Timeout: skillTimeout, runs: true,
			schema: `{"type":"object","additionalProperties":false,"required":[` + required + `],"properties":{` + properties + `,
				"max_bytes":{"type":"integer","minimum":512,"maximum":65536,"description":"Maximum size of the result"}}}`,
			run: func(ctx context.Context, c Call) (Result, error) { return runSkill(ctx, name, c) },
		}
	}
	return []*Tool{
		skill(KindAnalysis, toolname.LogDigest,
			"Summarize a log of any size: its kinds of lines with counts, first and last time, errors first, and what is new, rare or came in bursts, "+
				"each with file, line and a sample. Reads rotated and gzip files too. Use it before you read a log. "+
				`Example: {"path": "/var/log/nginx/*.log", "since": "2026-01-02T15:00:00Z"}.`,
			`"path"`, `"path":{"type":"string","minLength":1,"maxLength":4096,"description":"A log file (with those it was rotated into), a folder of logs, or a pattern such as /var/log/nginx/*.log"},
			"since":{"type":"string","maxLength":40,"description":"Only lines from this time on, like 2026-01-02T15:04:05Z"},
			"until":{"type":"string","maxLength":40,"description":"Only lines up to this time"},
			"contains":{"type":"string","maxLength":1000,"description":"Only lines with this text, for example a request id"}`),
		skill(KindSearch, toolname.SemanticGrep,
			"Find code by a description in words. Returns the best places as file:line. Matches the words inside identifiers and their stems, "+
				"ranks definitions first, and skips binary, generated and ignored files. For an exact string, use file_search. "+
				`Example: {"query": "where are expired leases requeued"}.`,
			`"query"`, `"query":{"type":"string","minLength":1,"maxLength":1000,"description":"What to find, in words or identifiers"},
			"path":{"type":"string","maxLength":4096,"description":"Folder or file; the workspace by default"},
			"include":{"type":"string","maxLength":200,"description":"Only files with names like this, such as *.go"},
			"results":{"type":"integer","minimum":1,"maximum":40,"description":"Maximum number of places; 8 by default"}`),
		skill(KindAnalysis, toolname.FileOutline,
			"List what a file defines (functions, types, sections, tables), each with its line number. Use it before you read a part of a long file. "+
				`Example: {"path": "hub/server.go"}.`,
			`"path"`, skillPath),
		skill(KindFile, toolname.FileView,
			"See an image (PNG, JPEG, GIF, WebP), or pages of a PDF document as pictures. Use it for screenshots, diagrams and scanned pages; "+
				"to read text, use file_read, or a command such as pdftotext. "+
				`Example: {"path": "docs/plan.pdf", "page": 2}.`,
			`"path"`, skillPath+`,
			"page":{"type":"integer","minimum":1,"maximum":100000,"description":"First page of a PDF document to see; 1 by default"},
			"pages":{"type":"integer","minimum":1,"maximum":4,"description":"Number of pages; 1 by default"}`),
		skill(KindAnalysis, toolname.JSONQuery,
			"Run a jq query over a JSON or JSON Lines file of any length. Each result has the line that it comes from. "+
				`Example: {"path": "events.jsonl", "query": "select(.level == \"error\") | .message"}.`,
			`"path","query"`, skillPath+`,
			"query":{"type":"string","minLength":1,"maxLength":10000,"description":"A jq program"}`),
		skill(KindAnalysis, toolname.CSVProfile,
			"Profile a CSV or TSV file of any length: its columns with types, empty, distinct, smallest, largest and most common values, and malformed rows. "+
				`Example: {"path": "orders.csv"}.`,
			`"path"`, skillPath+`,
			"delimiter":{"type":"string","maxLength":4,"description":"One character; detected by default"},
			"no_header":{"type":"boolean","description":"The first line is data"}`),
		skill(KindAnalysis, toolname.TreeDigest,
			"Summarize a folder of any size: kinds of files, the largest folders, and the largest and newest files. "+
				`Use it first in a project that you do not know. Example: {"path": "."}.`,
			``, `"path":{"type":"string","maxLength":4096,"description":"The folder; the workspace by default"},
			"all":{"type":"boolean","description":"Include what .gitignore excludes"}`),
		skill(KindAnalysis, toolname.TailStats,
			"Show the end of a log: how fast it grows, counts by level, the last errors and the last lines, with byte offsets. "+
				`For the whole log, use log_digest. Example: {"path": "app.log", "lines": 50}.`,
			`"path"`, skillPath+`,
			"lines":{"type":"integer","minimum":1,"maximum":1000,"description":"Number of last lines to show; 20 by default"},
			"bytes":{"type":"integer","minimum":1024,"maximum":268435456,"description":"How much of the end to analyze; 4 MiB by default"}`),
	}
}

// skillPath is the argument that names a file.
const skillPath = `"path":{"type":"string","minLength":1,"maxLength":4096,"description":"The file"}`

// skillAnswer is what deckhand-skill writes.
type skillAnswer struct {
	Answer    string       `json:"answer"`
	Images    sentPictures `json:"images"`
	BytesRead int64        `json:"bytes_read"`
	Error     string       `json:"error"`
}

// sentPictures are pictures as programs in the jail write them.
type sentPictures []struct {
	MediaType string `json:"media_type"`
	Data      []byte `json:"data"`
	SHA256    string `json:"sha256"`
	ForPeople bool   `json:"for_people"`
	// Mark is left, top, width and height.
	Mark []int32 `json:"mark"`
}

// maxMark bounds the coordinates of a mark.
const maxMark = 20000

// whole returns the pictures that arrived as they were sent, and how many others there were.
func (p sentPictures) whole() (out []Image, lost int) {
	for _, image := range p {
		sum := sha256.Sum256(image.Data)
		if hex.EncodeToString(sum[:]) != image.SHA256 {
			lost++
			continue
		}
		one := Image{MediaType: image.MediaType, Data: image.Data, ForPeople: image.ForPeople}
		if len(image.Mark) == 4 && slices.Min(image.Mark) >= 0 && slices.Max(image.Mark) <= maxMark {
			one.Mark = image.Mark
		}
		out = append(out, one)
	}
	return out, lost
}

// lostPictures says that pictures were lost on their way; empty for none.
func lostPictures(n int) string { return strings.Repeat("\n[an image was lost on its way]", n) }

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
		output, err := readLog(ctx, c, c.ExecID, 0, exec.GetLogBytes())
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
	images, lost := said.Images.whole()
	result := Result{
		Observation: said.Answer + lostPictures(lost), LogBytes: exec.GetLogBytes(), Workspace: exec.GetWorkspace(), Images: images,
		Outcome: map[string]any{"bytes_read": said.BytesRead, "answer_bytes": len(said.Answer)},
	}
	if len(images) > 0 {
		result.Outcome["images"] = len(images)
	}
	if said.Error != "" {
		result.Failed, result.Code = true, fault.ToolFailed
		result.Observation = fmt.Sprintf("error %s: %s", fault.ToolFailed, said.Error)
	}
	return result, nil
}
