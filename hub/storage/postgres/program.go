package postgres

import (
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Program returns the path of one of PostgreSQL's client programs, such as pg_dump, of a
// server's major version, or of the oldest later one: an older program refuses a newer
// server and a newer dump.
func Program(name string, major int) (string, error) {
	path, _, err := ProgramOf(name, major)
	return path, err
}

// ProgramOf is Program, and also returns the program's major version.
func ProgramOf(name string, major int) (string, int, error) {
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the only error is a malformed pattern
	if path, err := exec.LookPath(name); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		dirs = append(dirs, filepath.Dir(path))
	}
	best, found := "", 0
	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		has := programMajor(path)
		if has >= major && (found == 0 || has < found) {
			best, found = path, has
		}
	}
	if found == 0 {
		return "", 0, fault.New(fault.Precondition, "%s of PostgreSQL %d or later is not installed", name, major).
			WithFix("apt-get install postgresql-client-%d", major)
	}
	return best, found, nil
}

// programMajor returns the major version of a program, or 0 if it is not there.
func programMajor(path string) int {
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		return 0
	}
	match := versionLine.FindSubmatch(out)
	if match == nil {
		return 0
	}
	major, _ := strconv.Atoi(string(match[1]))
	return major
}
