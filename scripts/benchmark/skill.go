package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// skillProgram builds deckhand-skill into a folder.
func skillProgram(ctx context.Context, dir string) (string, error) {
	at := filepath.Join(dir, "deckhand-skill")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", at, "./cmd/deckhand-skill")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build deckhand-skill: %w: %s", err, out)
	}
	return at, nil
}

// program runs a program and returns its output, how long it took, and its use of
// processors and memory.
func program(ctx context.Context, env []string, argv ...string) (out []byte, took time.Duration, cpu time.Duration, maxRSS int64, err error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	begin := time.Now()
	err = cmd.Run()
	took = time.Since(begin)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 && stderr.Len() == 0 {
		err = nil // grep found nothing
	}
	if err != nil {
		return nil, 0, 0, 0, fmt.Errorf("%s: %w: %s", argv[0], err, stderr.Bytes())
	}
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		maxRSS = usage.Maxrss << 10
	}
	return stdout.Bytes(), took, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), maxRSS, nil
}

func goSource(ctx context.Context) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	return filepath.Join(strings.TrimSpace(string(root)), "src"), err
}

// semanticGrep measures a question to 100 MB of source against ripgrep of the
// same words.
func semanticGrep(ctx context.Context) (result, error) {
	dir, err := os.MkdirTemp("", "deckhand-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	skill, err := skillProgram(ctx, dir)
	if err != nil {
		return nil, err
	}
	if _, err := exec.LookPath("rg"); err != nil {
		return nil, errors.New("ripgrep is needed: apt-get install ripgrep")
	}
	tree := filepath.Join(dir, "tree")
	size, err := sourceTree(ctx, tree, 100e6)
	if err != nil {
		return nil, err
	}
	const n = 10
	var ours, peer []time.Duration
	longest := 0
	for range n + 1 { // the first fills the page cache
		out, took, _, _, err := program(ctx, nil, skill, "semantic_grep", `{"query":"retry the dns lookup after a timeout","path":"`+tree+`"}`)
		if err != nil {
			return nil, err
		}
		ours, longest = append(ours, took), max(longest, len(out))
		_, took, _, _, err = program(ctx, nil, "rg", "-i", "-n", "retry|dns|lookup|timeout", tree)
		if err != nil {
			return nil, err
		}
		peer = append(peer, took)
	}
	ours, peer = ours[1:], peer[1:]
	slices.Sort(ours)
	slices.Sort(peer)
	res := compared("s", percentile(ours, 50)/1000, percentile(peer, 50)/1000, "ripgrep", n)
	res["tree_mb"], res["answer_bytes"] = float64(size)/1e6, longest
	return res, nil
}

// sourceTree copies Go's source until it is so large.
func sourceTree(ctx context.Context, to string, size int64) (copied int64, err error) {
	root, err := goSource(ctx)
	if err != nil {
		return 0, err
	}
	for _, from := range []string{root, "/usr/include"} {
		err = filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() || copied >= size {
				return err
			}
			raw, err := os.ReadFile(path) //nolint:gosec // of the toolchain
			if err != nil {
				return err
			}
			at := filepath.Join(to, filepath.Base(from), strings.TrimPrefix(path, from))
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				return err
			}
			copied += int64(len(raw))
			return os.WriteFile(at, raw, 0o600)
		})
		if err != nil {
			return copied, err
		}
	}
	return copied, nil
}

// near is how many lines beside the place still show it.
const near = 12

// shows reports whether a place (a file below root, and a line) shows a line that
// is looked for.
func (q *question) shows(root, file string, line int) bool {
	if !regexp.MustCompile(q.file).MatchString(file) {
		return false
	}
	raw, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return false
	}
	lines := strings.Split(string(raw), "\n")
	want := regexp.MustCompile(q.line)
	return slices.ContainsFunc(lines[max(0, line-near-1):min(len(lines), line+near)], want.MatchString)
}

var placed = regexp.MustCompile(`(?m)^\d+\. (\S+):(\d+)  `)

// semanticQuality measures how many questions have the right place among the
// first five answers, ours and those of grep by the best of the question's
// words.
func semanticQuality(ctx context.Context) (result, error) {
	dir, err := os.MkdirTemp("", "deckhand-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	skill, err := skillProgram(ctx, dir)
	if err != nil {
		return nil, err
	}
	source, err := goSource(ctx)
	if err != nil {
		return nil, err
	}
	var ours, peer int
	var missed []string
	for _, q := range questions {
		root := source
		if q.headers {
			root = "/usr/include/linux"
		}
		args, err := json.Marshal(map[string]any{"query": q.text, "path": root})
		if err != nil {
			return nil, err
		}
		out, _, _, _, err := program(ctx, nil, skill, "semantic_grep", string(args))
		if err != nil {
			return nil, err
		}
		found := false
		for _, m := range placed.FindAllStringSubmatch(string(out), 5) {
			line, _ := strconv.Atoi(m[2])
			found = found || q.shows(root, m[1], line)
		}
		if found {
			ours++
		} else {
			missed = append(missed, q.text)
		}
		grepped, err := q.grep(ctx, root)
		if err != nil {
			return nil, err
		}
		if grepped {
			peer++
		}
	}
	n := len(questions)
	res := compared("%", 100*float64(ours)/float64(n), 100*float64(peer)/float64(n), "best of grep by any one word", n)
	res["missed"] = missed
	return res, nil
}

// grep reports whether the first five lines with any one of the words show the
// place.
func (q *question) grep(ctx context.Context, root string) (bool, error) {
	for _, word := range strings.Fields(q.text) {
		if len(word) < 3 {
			continue
		}
		out, _, _, _, err := program(ctx, nil, "sh", "-c", `cd "$1" && grep -rniIF -m 5 -- "$2" . | head -n 5`, "sh", root, word)
		if err != nil {
			return false, err
		}
		for line := range strings.Lines(string(out)) {
			parts := strings.SplitN(strings.TrimPrefix(line, "./"), ":", 3)
			if len(parts) != 3 {
				continue
			}
			number, _ := strconv.Atoi(parts[1])
			if q.shows(root, parts[0], number) {
				return true, nil
			}
		}
	}
	return false, nil
}

// logDigest measures the digest of a log of 1 GB on one processor.
func logDigest(ctx context.Context) (result, error) {
	dir, err := os.MkdirTemp("", "deckhand-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	skill, err := skillProgram(ctx, dir)
	if err != nil {
		return nil, err
	}
	const size = 1_000_000_000
	path := filepath.Join(dir, "app.log")
	if err := makeLog(path, size); err != nil {
		return nil, err
	}
	const n = 3
	var ours, peer []time.Duration
	var memory int64
	longest := 0
	for range n {
		out, _, cpu, rss, err := program(ctx, []string{"GOMAXPROCS=1"}, skill, "log_digest", `{"path":"`+path+`"}`)
		if err != nil {
			return nil, err
		}
		ours, memory, longest = append(ours, cpu), max(memory, rss), max(longest, len(out))
		_, _, cpu, _, err = program(ctx, nil, "grep", "-c", "refused", path)
		if err != nil {
			return nil, err
		}
		peer = append(peer, cpu)
	}
	slices.Sort(ours)
	slices.Sort(peer)
	speed := func(took []time.Duration) float64 { return size / 1e6 / (percentile(took, 50) / 1000) }
	res := compared("MB/s of processor time", speed(ours), speed(peer), "grep -c of one word", n)
	res["memory_mb"], res["answer_bytes"] = float64(memory)/1e6, longest
	return res, nil
}
