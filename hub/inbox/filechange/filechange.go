// Package filechange finds out what a call of a file tool would do to a workspace, for the
// person who decides about it. Look reads the workspace and returns one Change for each
// file or folder that the call names, with a diff against what is there now, or with why
// the call will fail.
//
// Look changes nothing, reads at most maxFile bytes of each file, and asks the node for
// each file one after another under the caller's context. What cannot be compared (a binary
// or large file) has no diff, and Omitted says why. An error means that the node could not
// be asked. Texts of a Change come from an agent and from its workspace: they are hostile,
// and secrets in them are not masked.
package filechange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/patch"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	"github.com/deckhand-sh/deckhand/internal/workpath"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Kind is what a call would do with a file.
type Kind string

// The kinds.
const (
	Create    Kind = "create"
	Overwrite Kind = "overwrite"
	Append    Kind = "append"
	Edit      Kind = "edit"
	Delete    Kind = "delete"
	Move      Kind = "move"
)

const (
	// maxFile is the size of the largest file that is compared, in bytes.
	maxFile = 512 << 10
	// maxUnified is the length of the longest diff that is kept, in bytes.
	maxUnified = 256 << 10
	// maxChanges is how many files of one patch are looked at.
	maxChanges = 50
	// maxListed is how many files of a folder are counted, and maxEntries how many are
	// named.
	maxListed  = 10_000
	maxEntries = 100
)

// Change is what a call would do with one file or folder.
type Change struct {
	Kind Kind   `json:"kind"`
	Path string `json:"path"`
	// To is the new path, for Move.
	To string `json:"to,omitempty"`
	// Before is what is at Path now, and Target what is at To; nil for nothing.
	Before *State `json:"before,omitempty"`
	Target *State `json:"target,omitempty"`
	// After is what would be at Path; nil if it is not known, or would be nothing.
	After *State `json:"after,omitempty"`
	// Added and Deleted are lines of the diff.
	Added   int `json:"added,omitempty"`
	Deleted int `json:"deleted,omitempty"`
	// Unified is the diff; empty if Omitted says why there is none, or if nothing differs.
	Unified string `json:"unified,omitempty"`
	Omitted string `json:"omitted,omitempty"`
	// Problem is why the call will fail; empty if nothing is known that prevents it.
	Problem string `json:"problem,omitempty"`

	// Of a folder that is deleted or moved: the files below it, at least so many if More
	// is set, their size in bytes, and the first of them.
	Files   int     `json:"files,omitempty"`
	Bytes   int64   `json:"bytes,omitempty"`
	More    bool    `json:"more,omitempty"`
	Entries []Entry `json:"entries,omitempty"`
	// Git says what Git has of what is deleted; nil if that is not known.
	Git *Git `json:"git,omitempty"`
}

// State is what is, or would be, at a path.
type State struct {
	// Type is "file", "dir", "symlink" or "other".
	Type string `json:"type"`
	Size int64  `json:"size"`
	// Lines is 0 for what is no text.
	Lines int `json:"lines,omitempty"`
	// Mode has the permission bits; 0 if they are not known.
	Mode uint32 `json:"mode,omitempty"`
}

// Entry is one file below a folder.
type Entry struct {
	Path string `json:"path"`
	Type string `json:"type"`
	Size int64  `json:"size"`
}

// Git is what Git has of files: how many are in its index as they are, differ from it, are
// not in it, and are ignored.
type Git struct {
	Branch    string `json:"branch"`
	Unchanged int    `json:"unchanged"`
	Changed   int    `json:"changed"`
	Untracked int    `json:"untracked"`
	Ignored   int    `json:"ignored"`
}

// Tools are the tools whose calls Look describes.
func Tools() []string {
	return []string{toolname.FileWrite, toolname.FileAppend, toolname.FileEdit, toolname.FileDelete, toolname.FileMove, toolname.ApplyPatch}
}

// Looker looks into the workspace of one jail.
type Looker struct {
	Files  nodev1.FileServiceClient
	JailID string
}

// Look returns what a call would do. It returns nothing for a tool that is not one of Tools.
func (l Looker) Look(ctx context.Context, tool string, arguments map[string]any) ([]Change, error) {
	name := workpath.Rel(text(arguments, "path"))
	var out Change
	var err error
	switch tool {
	case toolname.FileWrite:
		out, err = l.write(ctx, name, text(arguments, "expect_digest"), func(before string, there bool) (string, error) {
			return text(arguments, "content"), nil
		})
	case toolname.FileAppend:
		out, err = l.write(ctx, name, text(arguments, "expect_digest"), func(before string, there bool) (string, error) {
			return before + text(arguments, "content"), nil
		})
		if out.Kind == Overwrite {
			out.Kind = Append
		}
	case toolname.FileEdit:
		out, err = l.write(ctx, name, text(arguments, "expect_digest"), func(before string, there bool) (string, error) {
			return edited(name, before, there, text(arguments, "old_string"), text(arguments, "new_string"), arguments["replace_all"] == true)
		})
		out.Kind = Edit
	case toolname.FileDelete:
		out, err = l.remove(ctx, name, arguments["recursive"] == true, text(arguments, "expect_digest"))
	case toolname.FileMove:
		out, err = l.move(ctx, workpath.Rel(text(arguments, "from")), workpath.Rel(text(arguments, "to")), arguments["overwrite"] == true)
	case toolname.ApplyPatch:
		return l.patch(ctx, text(arguments, "input"))
	default:
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return []Change{out}, nil
}

func text(arguments map[string]any, key string) string { s, _ := arguments[key].(string); return s }

// problem is a fault as the reason why a call will fail.
func problem(err error) string {
	e := fault.As(err)
	if e == nil {
		return err.Error()
	}
	return e.Message
}

// aboutPath reports whether a node refused a path, so that the call would be refused too.
func aboutPath(err error) bool {
	return fault.Is(err, fault.Denied) || fault.Is(err, fault.Invalid) || fault.Is(err, fault.Precondition)
}

// at returns what is at a path; nil for nothing. Large reports that its content was too much to
// look at.
func (l Looker) at(ctx context.Context, name string) (found *State, large bool, err error) {
	stream, err := l.Files.DescribeFiles(ctx, &nodev1.DescribeFilesRequest{JailId: l.JailID, Paths: []string{name}, Exact: true, MaxBytes: maxFile})
	for err == nil {
		var res *nodev1.DescribeFilesResponse
		if res, err = stream.Recv(); err != nil {
			break
		}
		for _, e := range res.GetEntries() {
			found = &State{Type: e.GetType(), Size: e.GetSize(), Mode: e.GetMode()}
		}
		if len(res.GetSkipped()) > 0 {
			found = &State{Type: "other"}
		}
	}
	if errors.Is(err, io.EOF) {
		return found, false, nil
	}
	err = fault.FromGRPC(err)
	if !fault.Is(err, fault.Exhausted) {
		return nil, false, err
	}
	list, err := l.Files.ListFiles(ctx, &nodev1.ListFilesRequest{JailId: l.JailID, Path: name, Limit: 1})
	if err != nil {
		return nil, false, fault.FromGRPC(err)
	}
	found = &State{Type: "file"}
	if files := list.GetFiles(); len(files) == 1 {
		found.Size, found.Mode = files[0].GetSize(), files[0].GetMode()
	}
	return found, true, nil
}

// read returns the content of a file and its digest.
func (l Looker) read(ctx context.Context, name string) (content, digest string, err error) {
	res, err := l.Files.ReadFile(ctx, &nodev1.ReadFileRequest{JailId: l.JailID, Path: name, Limit: maxFile})
	if err != nil {
		return "", "", fault.FromGRPC(err)
	}
	return string(res.GetContent()), res.GetDigest(), nil
}

// write describes a call that gives a file another content. change returns the content, or
// why it cannot be made.
func (l Looker) write(ctx context.Context, name, expect string, change func(before string, there bool) (string, error)) (Change, error) {
	out := Change{Kind: Overwrite, Path: name}
	before, large, err := l.at(ctx, name)
	if aboutPath(err) {
		out.Problem = problem(err)
		return out, nil
	}
	if err != nil {
		return out, err
	}
	out.Before = before
	if before == nil {
		out.Kind = Create
	} else if before.Type == "dir" {
		out.Problem = fmt.Sprintf("%s is a folder", name)
		return out, nil
	}
	if large {
		out.Omitted = fmt.Sprintf("the file has %d bytes, and files up to %d are compared", before.Size, maxFile)
		return out, nil
	}
	var content, digest string
	if before != nil {
		if content, digest, err = l.read(ctx, name); aboutPath(err) {
			out.Problem = problem(err)
			return out, nil
		} else if err != nil {
			return out, err
		}
		before.Lines = lines(content)
	}
	out.Problem = unexpected(name, expect, digest, before != nil)
	after, err := change(content, before != nil)
	if err != nil {
		if out.Problem == "" {
			out.Problem = problem(err)
		}
		return out, nil
	}
	compare(&out, name, content, after)
	return out, nil
}

// unexpected returns why a call that expects a file with a digest will fail; "" if it will not.
func unexpected(name, expect, digest string, there bool) string {
	switch {
	case expect == "":
	case expect == "absent" && there:
		return name + " exists, and the call expects that it does not"
	case expect != "absent" && !there:
		return name + " does not exist, and the call expects a file there"
	case expect != "absent" && digest != "" && expect != digest:
		return name + " was changed since the agent read it: its digest is not the one that the call expects"
	}
	return ""
}

// edited returns the content of a file after an edit, as nodes make it.
func edited(name, before string, there bool, old, now string, all bool) (string, error) {
	if !there {
		return "", fault.New(fault.NotFound, "%s does not exist", name)
	}
	n := 0
	if old != "" {
		n = strings.Count(before, old)
	}
	switch {
	case n == 0:
		return "", fault.New(fault.Precondition, "the text %s is not in %s", quoted(old), name)
	case n > 1 && !all:
		return "", fault.New(fault.Precondition, "the text %s is %d times in %s, and replace_all is not set", quoted(old), n, name)
	}
	return strings.ReplaceAll(before, old, now), nil
}

// quoted returns the beginning of a text, in quotes, for a sentence.
func quoted(s string) string {
	const most = 80
	first, _, more := strings.Cut(s, "\n")
	if len(first) > most {
		first, more = strings.ToValidUTF8(first[:most], ""), true
	}
	if more {
		first += "..."
	}
	return "`" + first + "`"
}

// patch describes a patch, file by file.
func (l Looker) patch(ctx context.Context, input string) ([]Change, error) {
	files, err := patch.Parse(input)
	if err != nil {
		return []Change{{Kind: Edit, Path: ".", Problem: problem(err)}}, nil
	}
	var out []Change
	for _, f := range files[:min(len(files), maxChanges)] {
		name := workpath.Rel(f.Path)
		var one Change
		switch f.Kind {
		case patch.Delete:
			one, err = l.remove(ctx, name, false, "")
		case patch.Add:
			one, err = l.write(ctx, name, "absent", func(string, bool) (string, error) { return f.Content, nil })
		default:
			one, err = l.write(ctx, name, "", func(before string, there bool) (string, error) {
				if !there {
					return "", fault.New(fault.NotFound, "%s does not exist", name)
				}
				return f.Apply(before)
			})
			one.Kind = Edit
		}
		if err != nil {
			return nil, err
		}
		if f.To != "" {
			one.To = workpath.Rel(f.To)
		}
		out = append(out, one)
	}
	return out, nil
}
