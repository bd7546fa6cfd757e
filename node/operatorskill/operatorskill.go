// Package operatorskill loads the operator's own skills on a node: folders in
// the Agent Skills format, with a SKILL.md and the programs it refers to. Jails
// see them read-only; their programs run inside the jail, like the agent's own
// commands.
//
// Load checks them when the daemon starts. An invalid skill is reported, with
// what is wrong, to operators only.
package operatorskill

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/deckhand-sh/deckhand/internal/agentskill"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

const (
	// Max is how many skills a node may have.
	Max = 100
	// maxFiles bounds what is looked at of one.
	maxFiles   = 10_000
	othersRead = 0o004
	// othersWrite are the permissions that let others than the owner write.
	othersWrite = 0o022
)

// Skill is one folder.
type Skill struct {
	agentskill.Skill

	// Dir is the folder on the machine.
	Dir string
	// Problem says why agents are not shown it; empty for one that is in order.
	Problem string
}

// Load reads the skills in dir, in the order of their names. An empty dir has
// none; one that is not there is an error.
func Load(dir string) ([]Skill, error) {
	if dir == "" {
		return nil, nil
	}
	if !filepath.IsAbs(dir) {
		return nil, fault.New(fault.Invalid, "skills-dir %q is not absolute", dir).WithFix("give an absolute path")
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fault.New(fault.Invalid, "cannot read skills-dir: %v", err).WithFix("name a folder of skills, or leave it out")
	}
	var skills []Skill
	for _, entry := range entries {
		if !entry.IsDir() {
			continue // a README beside them
		}
		if len(skills) == Max {
			return nil, fault.New(fault.Invalid, "skills-dir %s has more than %d skills", dir, Max).WithFix("remove some")
		}
		s := Skill{Skill: agentskill.Skill{Name: entry.Name()}, Dir: filepath.Join(dir, entry.Name())}
		if read, err := read(s.Dir); err != nil {
			s.Problem = err.Error()
		} else {
			s.Skill = read
		}
		skills = append(skills, s)
	}
	return skills, nil
}

// read checks a folder and reads what it says of itself.
func read(dir string) (agentskill.Skill, error) {
	none := agentskill.Skill{}
	path := filepath.Join(dir, agentskill.File)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return none, fmt.Errorf("it contains no %s", agentskill.File)
	case err != nil:
		return none, err
	case !info.Mode().IsRegular():
		return none, fmt.Errorf("%s is not a file", agentskill.File)
	case info.Mode().Perm()&othersRead == 0:
		return none, fmt.Errorf("%s cannot be read in a jail: chmod o+r", agentskill.File)
	}
	file, err := os.Open(path)
	if err != nil {
		return none, err
	}
	defer file.Close()
	head, err := io.ReadAll(io.LimitReader(file, agentskill.MaxHead))
	if err != nil {
		return none, err
	}
	s, err := agentskill.Parse(string(head))
	if err != nil {
		return none, err
	}
	if s.Name != filepath.Base(dir) {
		return none, fmt.Errorf("its name is %s and its folder's is %s; make them the same", s.Name, filepath.Base(dir))
	}
	return s, ownedByOperators(dir)
}

// ownedByOperators rejects a folder that other users of the machine may change,
// because agents will run its programs.
func ownedByOperators(dir string) error {
	files := 0
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if files++; files > maxFiles {
			return fmt.Errorf("it has more than %d files", maxFiles)
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		owner := info.Sys().(*syscall.Stat_t).Uid
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			return nil // followed in the jail, where it leads to what the jail has
		case !info.Mode().IsRegular() && !info.IsDir():
			return fmt.Errorf("%s is neither file nor folder", rel)
		case info.Mode().Perm()&othersWrite != 0:
			return fmt.Errorf("%s may be changed by others than its owner: chmod go-w", rel)
		case owner != 0 && int(owner) != os.Geteuid():
			return fmt.Errorf("%s belongs to user %d: chown root", rel, owner)
		}
		return nil
	})
}
