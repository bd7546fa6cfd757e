package main

import (
	"context"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/internal/ident"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const containerdExec = "containerd task.Exec"

// pair measures two things in turns, n times each after a warm-up, and returns
// their sorted times. What is to be done before each is not in the times.
func pair(n int, ours, theirs func() error, before ...func() error) (a, b []time.Duration, err error) {
	for i := range n + n/10 + 1 {
		for _, side := range []struct {
			fn  func() error
			out *[]time.Duration
		}{{ours, &a}, {theirs, &b}} {
			for _, prepare := range before {
				if err := prepare(); err != nil {
					return nil, nil, err
				}
			}
			begin := time.Now()
			if err := side.fn(); err != nil {
				return nil, nil, err
			}
			if i > n/10 {
				*side.out = append(*side.out, time.Since(begin))
			}
		}
	}
	slices.Sort(a)
	slices.Sort(b)
	return a, b, nil
}

func compared(unit string, ours, theirs float64, peerName string, n int) result {
	return result{"unit": unit, "ours": ours, "peer": theirs, "peer_name": peerName, "ratio": ours / theirs, "n": n}
}

// execTrue measures from start to exit of `true` in a warm jail through the
// node's API, the ledger's fsync included.
func execTrue(ctx context.Context) (_ result, err error) {
	m, err := newMachine(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, m.close()) }()
	id, err := m.jail(ctx)
	if err != nil {
		return nil, err
	}
	p, err := m.peer(ctx)
	if err != nil {
		return nil, err
	}
	const n = 200
	a, b, err := pair(n,
		func() error { _, err := m.run(ctx, id, "/usr/bin/true"); return err },
		func() error { return p.run(ctx, "/usr/bin/true") })
	if err != nil {
		return nil, err
	}
	out := compared("ms", percentile(a, 50), percentile(b, 50), containerdExec, n)
	out["p95"], out["peer_p95"] = percentile(a, 95), percentile(b, 95)
	return out, nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// execParallel measures execs a second with 64 at once.
func execParallel(ctx context.Context) (_ result, err error) {
	m, err := newMachine(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, m.close()) }()
	id, err := m.jail(ctx)
	if err != nil {
		return nil, err
	}
	const atOnce, n = 64, 1280
	ours, err := rate(atOnce, n, func() error { _, err := m.run(ctx, id, "/usr/bin/true"); return err })
	if err != nil {
		return nil, err
	}
	theirs, most, failed, err := m.peerRate(ctx, atOnce)
	if err != nil {
		return nil, err
	}
	out := compared("per s", ours, theirs, containerdExec, n)
	out["at_once"], out["peer_at_once"] = atOnce, most
	if len(failed) > 0 {
		out["peer_failed_at"] = failed
	}
	return out, nil
}

// peerRate returns how many execs a second the peer does with so many at once,
// or with half as many, and so on, where it does not do them: the shim of
// containerd 1.6 stands still for good once some thirty are asked of it.
func (m *nodeRig) peerRate(ctx context.Context, atOnce int) (perSecond float64, most int, failed map[string]string, err error) {
	const n, fewest = 256, 4
	failed = map[string]string{}
	for ; atOnce >= fewest; atOnce /= 2 {
		// Each try has a container, and so a shim, of its own.
		p, err := m.peer(ctx)
		if err != nil {
			return 0, 0, nil, err
		}
		p.patience = 15 * time.Second
		perSecond, err := rate(atOnce, n, func() error { return p.run(ctx, "/usr/bin/true") })
		if err == nil {
			return perSecond, atOnce, failed, nil
		}
		failed[strconv.Itoa(atOnce)] = err.Error()
	}
	return 0, 0, nil, fmt.Errorf("the peer's execs fail however few are at once: %v", failed)
}

// rate returns how often fn runs in a second, n times by so many at once.
func rate(atOnce, n int, fn func() error) (float64, error) {
	work := make(chan struct{}, n)
	for range n {
		work <- struct{}{}
	}
	close(work)
	errs := make(chan error, atOnce)
	begin := time.Now()
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for range work {
				if err := fn(); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return 0, err
	default:
		return float64(n) / time.Since(begin).Seconds(), nil
	}
}

// jailCold measures from nothing to the exit of a jail's first command, user
// namespace and workspace image included, against ctr run without either.
func jailCold(ctx context.Context) (_ result, err error) {
	m, err := newMachine(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, m.close()) }()
	root, err := m.peerRoot()
	if err != nil {
		return nil, err
	}
	const n = 20
	made := 0
	a, b, err := pair(n,
		func() error {
			id, err := m.jail(ctx)
			if err != nil {
				return err
			}
			_, err = m.run(ctx, id, "/usr/bin/true")
			return err
		},
		func() error {
			made++
			out, err := osexec.CommandContext(ctx, "ctr", "-a", m.containerd.Address(), "-n", m.namespace+"-peer", "run", "--rm", "--rootfs",
				"--mount", "type=bind,src=/usr,dst=/usr,options=rbind:ro", root, fmt.Sprintf("cold-%d", made), "/usr/bin/true").CombinedOutput()
			if err != nil {
				return fmt.Errorf("ctr run: %w: %s", err, out)
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	return compared("ms", percentile(a, 50), percentile(b, 50), "ctr run", n), nil
}

// killTree measures from the order to kill to the proof that no member is left,
// for a tree of 50 processes with double forks.
func killTree(ctx context.Context) (_ result, err error) {
	m, err := newMachine(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, m.close()) }()
	jailID, err := m.jail(ctx)
	if err != nil {
		return nil, err
	}
	const n = 40
	var took []time.Duration
	for range n {
		id := ident.New("step")
		if _, err := m.exec.StartExec(ctx, &nodev1.StartExecRequest{Spec: &nodev1.ExecSpec{
			ExecId: id, JailId: jailID, Timeout: durationpb.New(time.Minute),
			Argv: []string{"/bin/bash", "-c", "for i in $(seq 25); do (setsid sleep 1000 & sleep 1000) & done; echo up; wait"},
		}}); err != nil {
			return nil, err
		}
		if err := m.await(ctx, id, "up"); err != nil {
			return nil, err
		}
		time.Sleep(100 * time.Millisecond) // until the last of them has forked
		begin := time.Now()
		res, err := m.exec.KillExec(ctx, &nodev1.KillExecRequest{ExecId: id, By: "benchmark"})
		if err != nil {
			return nil, err
		}
		took = append(took, time.Since(begin))
		if left := res.GetExec().GetMembersLeft(); left != 0 {
			return nil, fmt.Errorf("%d members are left", left)
		}
	}
	slices.Sort(took)
	return result{"unit": "ms", "ours": percentile(took, 95), "p50": percentile(took, 50), "n": n}, nil
}

// await waits until an exec has written a word.
func (m *nodeRig) await(ctx context.Context, id, word string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	stream, err := m.exec.ReadLog(ctx, &nodev1.ReadLogRequest{ExecId: id, Follow: true})
	if err != nil {
		return err
	}
	var b strings.Builder
	for !strings.Contains(b.String(), word) {
		piece, err := stream.Recv()
		if err != nil {
			return err
		}
		b.Write(piece.GetData())
	}
	return nil
}

// logThroughput measures 2 GB of output to a complete log with index, against
// the same command redirected to a file.
func logThroughput(ctx context.Context) (_ result, err error) {
	m, err := newMachine(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, m.close()) }()
	jailID, err := m.jail(ctx)
	if err != nil {
		return nil, err
	}
	const n, size = 3, 2 << 30
	command := "yes 'a line of a log, as long as lines of logs are: some eighty bytes or thereabouts' | head -c " + strconv.Itoa(size)
	file := filepath.Join(m.dir, "redirected")
	before := residentMB(os.Getpid())
	var a, b []time.Duration
	for range n {
		begin := time.Now()
		e, err := m.run(ctx, jailID, "/bin/bash", "-c", command)
		if err != nil {
			return nil, err
		}
		a = append(a, time.Since(begin))
		if e.GetLogBytes() != size {
			return nil, fmt.Errorf("the log has %d of %d bytes", e.GetLogBytes(), size)
		}
		begin = time.Now()
		if out, err := osexec.CommandContext(ctx, "/bin/bash", "-c", command+" > "+file).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("redirect: %w: %s", err, out)
		}
		b = append(b, time.Since(begin))
		if err := os.Remove(file); err != nil {
			return nil, err
		}
	}
	slices.Sort(a)
	slices.Sort(b)
	runtime.GC()
	out := compared("s", percentile(a, 50)/1000, percentile(b, 50)/1000, "redirect to a file", n)
	out["daemon_growth_mb"] = residentMB(os.Getpid()) - before
	return out, nil
}

// residentMB returns a process's resident memory in MiB; 0 when it has gone.
func residentMB(pid int) float64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb / 1024
		}
	}
	return 0
}
