package operatorskill

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed builtin
var builtin embed.FS

// WithBuiltin returns skills with those that every node has, which it writes to dir. One of
// the operator's own with the same name takes the place of a built-in one.
func WithBuiltin(own []Skill, dir string) ([]Skill, error) {
	err := fs.WalkDir(builtin, "builtin", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, strings.TrimPrefix(name, "builtin"))
		// Jails read it as other users. Running ones show the folder that is there.
		if entry.IsDir() {
			return errors.Join(os.MkdirAll(to, 0o755), os.Chmod(to, 0o755)) //nolint:gosec // see above
		}
		content, err := builtin.ReadFile(name)
		if err != nil {
			return err
		}
		return errors.Join(os.WriteFile(to, content, 0o644), os.Chmod(to, 0o644)) //nolint:gosec // see above
	})
	if err != nil {
		return nil, fmt.Errorf("write the built-in skills: %w", err)
	}
	entries, err := builtin.ReadDir("builtin")
	if err != nil {
		return nil, fmt.Errorf("list the built-in skills: %w", err)
	}
	skills := slices.Clone(own)
	for _, entry := range entries {
		if slices.ContainsFunc(own, func(s Skill) bool { return s.Name == entry.Name() }) {
			continue
		}
		s := Skill{Dir: filepath.Join(dir, entry.Name())}
		if s.Skill, err = read(s.Dir); err != nil {
			return nil, fmt.Errorf("the built-in skill %s: %w", entry.Name(), err)
		}
		skills = append(skills, s)
	}
	return skills, nil
}
