package files

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/patch"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// patched is a file that a patch changes.
type patched struct {
	name  string
	mode  fs.FileMode
	there bool // before
	was   string
	// made is its content afterwards; nil if it is not there any more.
	made *string
}

func (p *patched) digest() string {
	if p.made == nil {
		return absent
	}
	return digestText([]byte(*p.made))
}

// patchPlan is what is known of a patch before it takes effect: the digest that each file has
// afterwards, by its name in the workspace; absent for none.
type patchPlan struct {
	After map[string]string `json:"after"`
}

// PatchFiles implements nodev1.FileServiceServer.
func (s *Service) PatchFiles(ctx context.Context, req *nodev1.PatchFilesRequest) (*nodev1.PatchFilesResponse, error) {
	files, err := patch.Parse(req.GetPatch())
	if err != nil {
		return nil, err
	}
	w, _, err := s.open(req.GetJailId(), ".")
	if err != nil {
		return nil, err
	}
	defer w.close()
	out := &nodev1.PatchFilesResponse{}
	out.Workspace, err = s.change(ctx, req.GetJailId(), req.GetOperationId(), func() error {
		p := patcher{w: w}
		refused := p.apply(files)
		plan := patchPlan{After: map[string]string{}}
		for _, f := range p.files {
			plan.After[f.name] = f.digest()
		}
		return once(ctx, s, req.GetOperationId(), req, plan, out, func(begun *patchPlan) error {
			if begun != nil {
				// It may have taken effect in a part of the files before the daemon died.
				p = patcher{w: w, begun: begun.After}
				refused = p.apply(files)
			}
			if refused != nil {
				return refused
			}
			out.Files = p.describe(files)
			return p.write()
		})
	})
	return out, err
}

// patcher applies a patch to files that it reads, all in memory, and then writes them.
type patcher struct {
	w *workspace
	// begun is what an earlier run was going to make true; nil for none.
	begun map[string]string
	// files are in the order in which the patch names them.
	files []*patched
}

func (p *patcher) apply(files []patch.File) error {
	for _, f := range files {
		if err := p.applyOne(f); err != nil {
			return explain(f.Path, err)
		}
	}
	return nil
}

func (p *patcher) applyOne(f patch.File) error {
	from, err := p.file(f.Path, f.Kind == patch.Delete)
	if err != nil {
		return err
	}
	to := from
	if f.To != "" {
		if to, err = p.file(f.To, false); err != nil {
			return explain(f.To, err)
		}
	}
	if p.done(from) && p.done(to) {
		return nil
	}
	switch {
	case f.Kind == patch.Add && from.made != nil:
		return fault.New(fault.Exists, "%q is there already", f.Path).WithFix("update the file, or delete it before you add it")
	case f.Kind == patch.Add:
		from.made = &f.Content
		return nil
	case from.made == nil:
		return fs.ErrNotExist
	case f.Kind == patch.Delete:
		from.made = nil
		return nil
	}
	content, err := f.Apply(*from.made)
	if missing := (*patch.Missing)(nil); errors.As(err, &missing) {
		near := candidates([]byte(*from.made), []byte(missing.Text))
		return fault.New(missing.Fault.Kind, "%s%s", missing.Fault.Message, near).WithCode(missing.Fault.Code).WithFix("%s", missing.Fault.Fix)
	}
	if err != nil {
		return err
	}
	if to != from {
		if to.made != nil && !p.done(to) {
			return fault.New(fault.Exists, "%q is there already", f.To).WithFix("choose another path for the file, or delete what is there before")
		}
		from.made, to.mode = nil, from.mode
	}
	to.made = &content
	return nil
}

// done reports whether a file is as an earlier run was going to make it.
func (p *patcher) done(f *patched) bool {
	after, planned := p.begun[f.name]
	return planned && after == f.digest()
}

// file returns a file of the workspace as the patch has made it so far.
func (p *patcher) file(asked string, itself bool) (*patched, error) {
	name, err := clean(asked)
	if err != nil {
		return nil, err
	}
	if itself {
		// A link is not followed: its target would be deleted.
		info, err := p.w.root.Lstat(name)
		if err == nil && !info.Mode().IsRegular() {
			return nil, fault.New(fault.Precondition, "%q is no regular file", asked).WithFix("delete it with another tool")
		}
	}
	name, info, err := p.w.writable(name)
	if err == nil {
		err = p.w.unshared(name, asked)
	}
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(p.files, func(f *patched) bool { return f.name == name }); i >= 0 {
		return p.files[i], nil
	}
	f := &patched{name: name, mode: newFile}
	if info != nil {
		if info.Size() > maxEdit {
			return nil, tooLarge("the file", int(info.Size()), maxEdit)
		}
		content, err := p.w.readAll(name)
		if err != nil {
			return nil, err
		}
		f.there, f.was, f.mode = true, string(content), info.Mode().Perm()
		f.made = &f.was
	}
	p.files = append(p.files, f)
	return f, nil
}

// write makes the files so. What is written comes before what is removed: a file that was
// moved is somewhere at any time.
func (p *patcher) write() error {
	for _, f := range p.files {
		if f.made == nil || f.there && *f.made == f.was {
			continue
		}
		if err := p.w.replace(f.name, f.mode, []byte(*f.made)); err != nil {
			return explain(f.name, err)
		}
	}
	for _, f := range p.files {
		if f.made == nil && f.there {
			if err := p.w.root.Remove(f.name); err != nil {
				return explain(f.name, err)
			}
		}
	}
	return nil
}

// describe returns what became of the files that a patch names.
func (p *patcher) describe(files []patch.File) (out []*nodev1.PatchedFile) {
	for _, f := range files {
		one := &nodev1.PatchedFile{Path: f.Path, To: f.To, Change: string(f.Kind)}
		path := f.Path
		if f.To != "" {
			path = f.To
		}
		if at, err := p.file(path, false); err == nil && at.made != nil {
			one.Size, one.Digest = int64(len(*at.made)), at.digest()
		}
		out = append(out, one)
	}
	return out
}
