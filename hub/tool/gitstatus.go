package tool

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/internal/shortlist"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	// gitTime is how long Git may take to compare a workspace with its repository.
	gitTime = 5 * time.Second
	// maxGitStatus is how many bytes of what it says are read.
	maxGitStatus = 256 << 10
	// gitNamed is how many paths of a kind are named.
	gitNamed = 20
)

// gitStatusArgs make Git say what git status says, for programs, without writing its index.
var gitStatusArgs = []string{"git", "--no-optional-locks", "-c", "core.fsmonitor=false", "status", "--porcelain=v2", "--branch", "-z"}

// gitStatusInJail asks the Git of the jail for the branch and the state of the files; known is
// false if there is none, or it takes too long. It runs in the jail, as the agent's own
// commands do, because a repository's settings may name programs.
func gitStatusInJail(ctx context.Context, c Call) (branch, status string, known bool) {
	ctx, cancel := context.WithTimeout(ctx, 2*gitTime)
	defer cancel()
	c.Live = func(context.Context) bool { return true }
	exec, err := execute(ctx, c, &nodev1.ExecSpec{
		ExecId: c.ExecID, JailId: c.Jail.GetJailId(), Argv: gitStatusArgs, Timeout: durationpb.New(gitTime),
	})
	if err != nil || exec.GetEndReason() != nodev1.EndReason_END_REASON_EXITED || exec.GetExitCode() != 0 || exec.GetLogBytes() > maxGitStatus {
		return "", "", false
	}
	said, err := readLog(ctx, c, c.ExecID, 0, exec.GetLogBytes())
	if err != nil {
		return "", "", false
	}
	branch, status = readGitStatus(said)
	return branch, status, branch != ""
}

// readGitStatus reads what git status --porcelain=v2 --branch -z writes: headers, and a record
// for each path, https://git-scm.com/docs/git-status#_porcelain_format_version_2.
func readGitStatus(said string) (branch, status string) {
	commit := ""
	kinds := []struct {
		is    string
		paths []string
	}{{is: "staged"}, {is: "changed and not staged"}, {is: "deleted and not staged"}, {is: "in conflict"}, {is: "not tracked"}}
	records := strings.Split(said, "\x00")
	for i := 0; i < len(records); i++ {
		r := records[i]
		switch {
		case strings.HasPrefix(r, "# branch.oid "):
			commit = strings.TrimPrefix(r, "# branch.oid ")
		case strings.HasPrefix(r, "# branch.head "):
			branch = strings.TrimPrefix(r, "# branch.head ")
		case strings.HasPrefix(r, "1 "), strings.HasPrefix(r, "2 "):
			fields := 9 // before the path of a record of kind 1
			if r[0] == '2' {
				fields, i = 10, i+1 // the record after it is the path that it had
			}
			parts := strings.SplitN(r, " ", fields)
			if len(parts) < fields || len(parts[1]) != 2 {
				continue
			}
			path := parts[fields-1]
			if parts[1][0] != '.' {
				kinds[0].paths = append(kinds[0].paths, path)
			}
			switch parts[1][1] {
			case '.':
			case 'D':
				kinds[2].paths = append(kinds[2].paths, path)
			default:
				kinds[1].paths = append(kinds[1].paths, path)
			}
		case strings.HasPrefix(r, "u "):
			if parts := strings.SplitN(r, " ", 11); len(parts) == 11 {
				kinds[3].paths = append(kinds[3].paths, parts[10])
			}
		case strings.HasPrefix(r, "? "):
			kinds[4].paths = append(kinds[4].paths, r[2:])
		}
	}
	if branch == "(detached)" {
		const short = 12
		branch = "detached at " + commit[:min(len(commit), short)]
	}
	var parts []string
	for _, kind := range kinds {
		n := len(kind.paths)
		if n == 0 {
			continue
		}
		named := kind.paths[:min(n, gitNamed)]
		for i, name := range named {
			if strings.ContainsFunc(name, unicode.IsControl) {
				named[i] = strconv.Quote(name) // on one line, which is no other line of the prompt
			}
		}
		parts = append(parts, fmt.Sprintf("%d %s: %s", n, kind.is, shortlist.Of(named, gitNamed, n)))
	}
	if len(parts) == 0 {
		return branch, "nothing to commit, and no file that is not tracked"
	}
	return branch, strings.Join(parts, "; ")
}
