package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi" //nolint:gosec // this Go is newer
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	cloneBytes  = 200 << 20 // of the repository
	cloneFiles  = 200
	cloneRounds = 5
)

// gitClone measures the clone of a repository with a credential that the node inserts, against
// the clone in a tunnel of the same proxy with the credential in the command's own hands.
func gitClone(ctx context.Context) (result, error) {
	root, err := os.MkdirTemp("", "deckhand-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(root)
	git := func(dir string, args ...string) error {
		cmd := osexec.CommandContext(ctx, "git", args...) //nolint:gosec // of our own making
		cmd.Dir = dir
		cmd.Env = []string{
			"HOME=" + root, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@x", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@x",
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, out)
		}
		return nil
	}
	seed := filepath.Join(root, "app.git")
	if err := git(root, "init", "--quiet", "--initial-branch=main", seed); err != nil {
		return nil, err
	}
	for i := range cloneFiles {
		content := make([]byte, cloneBytes/cloneFiles)
		if _, err := rand.Read(content); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(seed, fmt.Sprint(i)), content, 0o600); err != nil {
			return nil, err
		}
	}
	for _, args := range [][]string{{"add", "."}, {"commit", "--quiet", "-m", "all"}, {"repack", "-adq"}} {
		if err := git(seed, args...); err != nil {
			return nil, err
		}
	}
	where, err := osexec.CommandContext(ctx, "git", "--exec-path").Output()
	if err != nil {
		return nil, err
	}
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(where)), "git-http-backend"), Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "HOME=" + root, "GIT_CONFIG_NOSYSTEM=1"},
	}
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("x:"+injectSecret))
	r, err := newInjectRig(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != basic && got != "Bearer "+injectSecret {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	if err != nil {
		return nil, err
	}
	defer r.close()
	trusted := filepath.Join(root, "ca.pem")
	if err := os.WriteFile(trusted, []byte(r.ca+r.roots), 0o600); err != nil {
		return nil, err
	}
	times := map[string][]time.Duration{}
	for range cloneRounds {
		for _, jail := range []string{byTunnel, byNode, byHub} {
			address, stop, err := relay(filepath.Join(r.dir, jail+".sock"))
			if err != nil {
				return nil, err
			}
			work := filepath.Join(root, "work")
			took, err := timed(func() error {
				return git(root, "-c", "http.proxy=http://"+address, "-c", "http.sslCAInfo="+trusted,
					"clone", "--quiet", "--no-checkout", strings.Replace(r.server.URL, "https://", "https://x:"+injectSecret+"@", 1)+"/app.git", work)
			})
			stop()
			if err = errors.Join(err, os.RemoveAll(work)); err != nil {
				return nil, err
			}
			times[jail] = append(times[jail], took)
		}
	}
	for _, all := range times {
		slices.Sort(all)
	}
	p50 := func(jail string) float64 { return percentile(times[jail], 50) }
	out := compared("ms", p50(byNode), p50(byTunnel), "opaque tunnel", cloneRounds)
	out["hub_ms"], out["hub_ratio"] = p50(byHub), p50(byHub)/p50(byTunnel)
	return out, nil
}

// relay has a port lead to a socket, as a jail's init does.
func relay(socket string) (address string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is short
	if err != nil {
		return "", nil, err
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer from.Close()
				to, err := net.Dial("unix", socket) //nolint:noctx // it is short
				if err != nil {
					return
				}
				defer to.Close()
				go func() {
					_, _ = io.Copy(to, from)
					_ = to.Close()
				}()
				_, _ = io.Copy(from, to)
			})
		}
	})
	return l.Addr().String(), func() { _ = l.Close(); all.Wait() }, nil
}
