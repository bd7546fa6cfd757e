package tool

import (
	"context"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/deckhand-sh/deckhand/internal/agentskill"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/shortlist"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	instructionsFile = "AGENTS.md"
	skillsFolder     = ".agents/skills"
	// maxSkills is how many skills of a workspace an agent is shown.
	maxSkills = 50
)

// Project is a workspace's content for the agents that work in it: its scratchpad, its
// AGENTS.md, and its skills.
type Project struct {
	Scratchpad   string
	Instructions string
	Skills       []Skill
	// Branch is the Git branch that is checked out, or "detached at COMMIT", and GitStatus
	// is what the node can tell of the files without running Git, which would run programs that
	// the repository names; empty if that is not known.
	Branch, GitStatus string
}

// Skill is a folder in the Agent Skills format: a SKILL.md whose front matter says when
// to read it.
type Skill struct{ Name, Description, Path string }

// ReadProject returns what is there; what is not stays empty.
func ReadProject(ctx context.Context, c Call) (Project, error) {
	var p Project
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		p.Scratchpad, err = ReadScratchpad(ctx, c)
		return err
	})
	group.Go(func() (err error) {
		p.Instructions, err = readHead(ctx, c, instructionsFile, scratchpadBytes)
		return err
	})
	group.Go(func() (err error) {
		p.Skills, err = readSkills(ctx, c)
		return err
	})
	group.Go(func() error {
		st, err := c.Node.Files().GitStatus(ctx, &nodev1.GitStatusRequest{JailId: c.Jail.GetJailId()})
		if e := fault.As(fault.FromGRPC(err)); err != nil && e.Kind == fault.Internal {
			return nil // an older node, or a repository that cannot be read
		}
		p.Branch, p.GitStatus = st.GetBranch(), gitStatus(st)
		return unlessRefused(err)
	})
	return p, group.Wait()
}

// gitStatus says in a few words what Git would say of the workspace's files, but for what is
// staged; empty if that is not known.
func gitStatus(st *nodev1.GitStatusResponse) string {
	if !st.GetCompared() {
		return ""
	}
	var parts []string
	for _, kind := range []struct {
		is    string
		paths *nodev1.GitStatusResponse_Paths
	}{{"changed", st.GetChanged()}, {"deleted", st.GetDeleted()}, {"in conflict", st.GetConflicted()}, {"not tracked", st.GetUntracked()}} {
		if count := int(kind.paths.GetCount()); count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s: %s", count, kind.is, shortlist.Of(kind.paths.GetPaths(), count, count)))
		}
	}
	if len(parts) == 0 {
		return "nothing changed since it was added or committed, and no file that is not tracked"
	}
	return strings.Join(parts, "; ")
}

// readHead returns a file's first bytes as text; "" for one that cannot be read
// as one, such as a folder or a link that leads out.
func readHead(ctx context.Context, c Call, file string, limit int64) (string, error) {
	var res *nodev1.ReadFileResponse
	err := inJail(ctx, c, func() (err error) {
		res, err = c.Node.Files().ReadFile(ctx, &nodev1.ReadFileRequest{JailId: c.Jail.GetJailId(), Path: file, Limit: limit})
		return err
	})
	if err := unlessRefused(err); err != nil {
		return "", err
	}
	return strings.ToValidUTF8(string(res.GetContent()), "\uFFFD"), nil
}

func readSkills(ctx context.Context, c Call) ([]Skill, error) {
	var res *nodev1.ListFilesResponse
	err := inJail(ctx, c, func() (err error) {
		res, err = c.Node.Files().ListFiles(ctx, &nodev1.ListFilesRequest{JailId: c.Jail.GetJailId(), Path: skillsFolder, Limit: maxSkills})
		return err
	})
	if err := unlessRefused(err); err != nil {
		return nil, err
	}
	var out []Skill
	for _, folder := range res.GetFiles() {
		file := path.Join(skillsFolder, path.Base(folder.GetPath()), agentskill.File)
		head, err := readHead(ctx, c, file, agentskill.MaxHead)
		if err != nil {
			return nil, err
		}
		if s, err := agentskill.Parse(head); err == nil {
			out = append(out, Skill{Name: s.Name, Description: s.Description, Path: file})
		}
	}
	return out, nil
}

// unlessRefused passes on an error of the way to the node; what the node refuses
// is not there.
func unlessRefused(err error) error {
	if err == nil {
		return nil
	}
	e := fault.As(fault.FromGRPC(err))
	switch e.Kind {
	case fault.Unavailable, fault.Canceled, fault.Deadline, fault.Internal, fault.Unauthenticated:
		return err
	}
	return nil
}
