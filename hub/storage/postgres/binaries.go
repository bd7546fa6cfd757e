package postgres

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// minMajor is the oldest PostgreSQL that the hub's SQL is written for.
const minMajor = 15

type binaries struct {
	dir   string
	major int
}

var versionLine = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// findBinaries returns where initdb and postgres are. want is the version of a
// cluster that exists already, or 0: PostgreSQL opens only its own version's.
func findBinaries(dir string, want int) (binaries, error) {
	var dirs []string
	if dir != "" {
		dirs = []string{dir}
	} else {
		// The only error is a malformed pattern.
		dirs, _ = filepath.Glob("/usr/lib/postgresql/*/bin")
		if path, err := exec.LookPath("postgres"); err == nil {
			if real, err := filepath.EvalSymlinks(path); err == nil {
				dirs = append(dirs, filepath.Dir(real))
			}
		}
	}
	var best binaries
	for _, dir := range dirs {
		major := majorOf(dir)
		if want != 0 && major == want {
			return binaries{dir, major}, nil
		}
		if want == 0 && major >= minMajor && major > best.major {
			best = binaries{dir, major}
		}
	}
	switch {
	case best.major != 0:
		return best, nil
	case want != 0:
		return binaries{}, fault.New(fault.Precondition, "the data folder was made by PostgreSQL %d, which is not installed", want).
			WithFix("apt-get install postgresql-%d, or name its folder", want)
	case dir != "":
		return binaries{}, fault.New(fault.Precondition, "no initdb and postgres of version %d or later in %s", minMajor, dir).
			WithFix("name the folder that holds them")
	}
	return binaries{}, fault.New(fault.Precondition, "PostgreSQL %d or later is not installed: initdb and postgres are neither below /usr/lib/postgresql nor in PATH", minMajor).
		WithFix("apt-get install postgresql, or name a server with --database-url")
}

// majorOf returns the version of the binaries in a folder, or 0.
func majorOf(dir string) int {
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return 0
	}
	out, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output()
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

// clusterMajor returns the version that created a cluster, or 0 for none.
func clusterMajor(pgdata string) int {
	text, err := os.ReadFile(filepath.Join(pgdata, "PG_VERSION"))
	if err != nil {
		return 0
	}
	major, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return major
}
