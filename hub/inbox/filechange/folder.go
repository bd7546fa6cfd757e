package filechange

import (
	"context"
	"fmt"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// remove describes a deletion.
func (l Looker) remove(ctx context.Context, name string, recursive bool, expect string) (Change, error) {
	out := Change{Kind: Delete, Path: name}
	before, large, err := l.at(ctx, name)
	switch {
	case aboutPath(err):
		out.Problem = problem(err)
		return out, nil
	case err != nil:
		return out, err
	case before == nil:
		out.Problem = name + " does not exist"
		return out, nil
	}
	out.Before = before
	switch before.Type {
	case "dir":
		if err := l.below(ctx, &out, name); err != nil {
			return out, err
		}
		if out.Files > 0 && !recursive {
			out.Problem = fmt.Sprintf("the folder %s is not empty, and recursive is not set", name)
		}
		return out, nil
	case "file":
		out.Files, out.Bytes = 1, before.Size
		if !large {
			content, digest, err := l.read(ctx, name)
			if err != nil && !aboutPath(err) {
				return out, err
			}
			out.Problem = unexpected(name, expect, digest, true)
			if err == nil && !binary(content) {
				before.Lines = lines(content)
			}
		}
	default:
		out.Files = 1
	}
	out.Git = l.git(ctx, name, []string{name})
	return out, nil
}

// below counts and names what is in a folder.
func (l Looker) below(ctx context.Context, out *Change, name string) error {
	list, err := l.Files.ListFiles(ctx, &nodev1.ListFilesRequest{JailId: l.JailID, Path: name, Recursive: true, Limit: maxListed})
	if err != nil {
		return fault.FromGRPC(err)
	}
	var files []string
	for _, f := range list.GetFiles() {
		if f.GetType() == "dir" {
			continue
		}
		files = append(files, f.GetPath())
		out.Bytes += f.GetSize()
		if len(out.Entries) < maxEntries {
			out.Entries = append(out.Entries, Entry{Path: f.GetPath(), Type: f.GetType(), Size: f.GetSize()})
		}
	}
	out.Files, out.More = len(files), list.GetTruncated()
	if !out.More {
		out.Git = l.git(ctx, name, files)
	}
	return nil
}

// git returns what Git has of some files at or below a path; nil if there is no repository, or
// if it cannot be told.
func (l Looker) git(ctx context.Context, name string, files []string) *Git {
	status, err := l.Files.GitStatus(ctx, &nodev1.GitStatusRequest{JailId: l.JailID})
	if err != nil || status.GetBranch() == "" || !status.GetCompared() {
		return nil
	}
	kept, err := l.Files.ListFiles(ctx, &nodev1.ListFilesRequest{JailId: l.JailID, Path: name, Recursive: true, Limit: maxListed, SkipIgnored: true})
	if err != nil || kept.GetTruncated() {
		return nil
	}
	known := map[string]bool{}
	for _, f := range kept.GetFiles() {
		known[f.GetPath()] = true
	}
	// Each list of the status has its first paths only.
	whole := func(p *nodev1.GitStatusResponse_Paths) bool { return int(p.GetCount()) <= len(p.GetPaths()) }
	if !whole(status.GetChanged()) || !whole(status.GetConflicted()) || !whole(status.GetUntracked()) {
		return nil
	}
	out := &Git{Branch: status.GetBranch()}
	for _, f := range files {
		switch {
		case under(f, status.GetUntracked().GetPaths()):
			out.Untracked++
		case under(f, status.GetChanged().GetPaths()), under(f, status.GetConflicted().GetPaths()):
			out.Changed++
		case known[f]:
			out.Unchanged++
		default:
			out.Ignored++
		}
	}
	return out
}

// under reports whether a file is one of paths, or in one of them that is a folder.
func under(file string, paths []string) bool {
	for _, p := range paths {
		if file == p || strings.HasSuffix(p, "/") && strings.HasPrefix(file, p) {
			return true
		}
	}
	return false
}

// move describes a move.
func (l Looker) move(ctx context.Context, from, to string, overwrite bool) (Change, error) {
	out := Change{Kind: Move, Path: from, To: to}
	before, _, err := l.at(ctx, from)
	if err == nil && before == nil {
		out.Problem = from + " does not exist"
		return out, nil
	}
	var target *State
	var large bool
	if err == nil {
		target, large, err = l.at(ctx, to)
	}
	if aboutPath(err) {
		out.Problem = problem(err)
		return out, nil
	}
	if err != nil {
		return out, err
	}
	out.Before, out.Target = before, target
	if before.Type == "dir" {
		if err := l.below(ctx, &out, from); err != nil {
			return out, err
		}
		out.Git = nil // nothing is lost
	}
	switch {
	case target == nil:
		return out, nil
	case !overwrite:
		out.Problem = to + " exists, and overwrite is not set"
	case target.Type == "dir":
		out.Problem = to + " is a folder"
	}
	if target.Type != "file" || large {
		return out, nil
	}
	lost, _, err := l.read(ctx, to)
	if err != nil {
		return out, err
	}
	if !binary(lost) {
		target.Lines = lines(lost)
	}
	if out.Problem != "" || before.Type != "file" || before.Size > maxFile {
		return out, nil
	}
	now, _, err := l.read(ctx, from)
	if err != nil {
		return out, err
	}
	compared := Change{Before: target}
	compare(&compared, to, lost, now)
	out.Added, out.Deleted, out.Unified, out.Omitted = compared.Added, compared.Deleted, compared.Unified, compared.Omitted
	return out, nil
}
