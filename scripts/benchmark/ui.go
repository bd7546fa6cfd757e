package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/internal/datadir"
	"github.com/deckhand-sh/deckhand/node/nodetest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	uiHistory = 20_000 // events of the task that is looked at
	uiRate    = 50     // events a second while it is
	uiLive    = 15 * time.Second
	uiCards   = 300
	uiReplay  = 2_000 // turns of the run that is replayed
)

// console measures the console in the system's Chromium: what a browser fetches
// before it shows anything (ours, KB of gzip), and for the page that needs most
// besides; how soon a task of 20 000 events is on the screen; the longest that
// the page does not answer while 50 events a second come; from an event's time
// to the frame that shows it; the share of a core that 300 cards take when an
// iteration of each ends every second and its jail uses something else; the
// longest frame while the output of a command in a real jail is scrolled from
// end to end; and how soon the replay of 2 000 turns is on the screen, and its frames a
// second while somebody drags along it, each against a static page with the same rows.
func console(ctx context.Context) (_ result, err error) {
	build := exec.CommandContext(ctx, "scripts/build-ui")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return nil, err
	}
	out, err := consoleSizes()
	if err != nil {
		return nil, err
	}
	m, err := newMachine(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, m.close()) }()
	s, err := newStack(ctx)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	printed, err := s.printed(ctx, m)
	if err != nil {
		return nil, err
	}
	var jails atomic.Pointer[[]string]
	if err := s.simulatedNode(ctx, func(cfg *nodetest.Config) {
		cfg.Telemetry = func() *nodev1.TelemetrySample { return sample(jails.Load()) }
	}); err != nil {
		return nil, err
	}
	workers, leases, theirs, err := s.runningTasks(ctx, uiCards)
	if err != nil {
		return nil, err
	}
	jails.Store(&theirs)
	seen := leases[0]
	batch := int64(0)
	record := func(lease *deckhandv1.Lease, batch int64, kind string, payloads ...map[string]any) error {
		events := make([]*deckhandv1.EventDraft, len(payloads))
		for i, p := range payloads {
			payload, err := structpb.NewStruct(p)
			if err != nil {
				return err
			}
			events[i] = &deckhandv1.EventDraft{Type: kind, Payload: payload}
		}
		_, err := workers.Workers.RecordEvents(ctx, &deckhandv1.RecordEventsRequest{Lease: lease, Batch: batch, Events: events})
		return err
	}
	turn := func(n int) map[string]any {
		return map[string]any{"turn": n, "text": fmt.Sprintf("bench %d Looking at the next of many files.", time.Now().UnixMilli()), "model": "script"}
	}
	for n := 0; n < uiHistory; n += 100 {
		turns := make([]map[string]any, 100)
		for i := range turns {
			turns[i] = turn(n + i)
		}
		batch++
		if err := record(seen, batch, "thinking", turns...); err != nil {
			return nil, err
		}
	}
	replayed := leases[1]
	for n := 0; n < uiReplay; n += 100 {
		turns, ends := make([]map[string]any, 100), make([]map[string]any, 100)
		for i := range turns {
			turns[i] = turn(n + i + 1)
			ends[i] = map[string]any{"iteration": n + i + 1, "usage": map[string]any{"input_tokens": 900, "output_tokens": 100, "cost_micros": 20_000}}
		}
		// Without a number: those of the cards begin at one.
		if err := errors.Join(record(replayed, 0, "thinking", turns...), record(replayed, 0, "iteration_complete", ends...)); err != nil {
			return nil, err
		}
	}

	admin, err := os.ReadFile(filepath.Join(s.dir, "hub", datadir.AdminTokenFile))
	if err != nil {
		return nil, err
	}
	browser := exec.CommandContext(ctx, "node", "e2e/bench.mjs")
	browser.Dir = "ui"
	browser.Stderr = os.Stderr
	browser.Env = append(os.Environ(), "DECKHAND_BENCH_URL="+s.hub.URL(), "DECKHAND_BENCH_TOKEN="+strings.TrimSpace(string(admin)),
		"DECKHAND_BENCH_TASK="+seen.GetTaskId(), "DECKHAND_BENCH_PRINTED="+printed, "DECKHAND_BENCH_REPLAY="+replayed.GetTaskId(),
		fmt.Sprintf("DECKHAND_BENCH_MS=%d", uiLive.Milliseconds()))
	stdout, err := browser.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := browser.Start(); err != nil {
		return nil, err
	}
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		switch line := lines.Text(); line {
		case "task":
			err = every(ctx, time.Second/uiRate, uiLive, func(n int) error {
				batch++
				return record(seen, batch, "thinking", turn(uiHistory+n))
			})
		case "fleet":
			err = every(ctx, time.Second/uiCards, uiLive, func(n int) error {
				lease, number := leases[n%uiCards], int64(n/uiCards+1)
				if lease == seen {
					batch++
					number = batch
				}
				return record(lease, number, "iteration_complete", map[string]any{
					"iteration": n/uiCards + 1, "usage": map[string]any{"input_tokens": 900 + n, "output_tokens": 100, "cost_micros": 20_000},
				})
			})
		default:
			err = json.Unmarshal([]byte(line), &out)
		}
		if err != nil {
			_ = browser.Process.Kill()
			return nil, errors.Join(err, browser.Wait())
		}
	}
	return out, browser.Wait()
}

// every calls fn at a rate for a while. What is late is made up for.
func every(ctx context.Context, pause, during time.Duration, fn func(n int) error) error {
	begin := time.Now()
	for n := 0; time.Since(begin) < during; n++ {
		if rest := time.Until(begin.Add(time.Duration(n) * pause)); rest > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(rest):
			}
		}
		if err := fn(n); err != nil {
			return err
		}
	}
	return nil
}

// consoleSizes returns what a browser fetches to show the frame, and for the
// largest page besides.
func consoleSizes() (result, error) {
	type chunk struct {
		File           string
		IsEntry        bool
		IsDynamicEntry bool
		Imports        []string
		CSS            []string
	}
	data, err := os.ReadFile(".build/ui/.vite/manifest.json")
	if err != nil {
		return nil, err
	}
	var chunks map[string]chunk
	if err := json.Unmarshal(data, &chunks); err != nil {
		return nil, err
	}
	var needs func(name string, all map[string]bool)
	needs = func(name string, all map[string]bool) {
		c := chunks[name]
		if all[c.File] {
			return
		}
		all[c.File] = true
		for _, css := range c.CSS {
			all[css] = true
		}
		for _, i := range c.Imports {
			needs(i, all)
		}
	}
	size := func(files, but map[string]bool) (total float64, err error) {
		for name := range files {
			if but[name] {
				continue
			}
			n, err := gzipped(filepath.Join(".build/ui", name))
			if err != nil {
				return 0, err
			}
			total += float64(n) / 1000
		}
		return total, nil
	}
	entry := map[string]bool{}
	for name, c := range chunks {
		if c.IsEntry {
			needs(name, entry)
		}
	}
	out := result{"unit": "KB"}
	if out["ours"], err = size(entry, nil); err != nil {
		return nil, err
	}
	largest, largestName := 0.0, ""
	for name, c := range chunks {
		if !c.IsDynamicEntry {
			continue
		}
		route := map[string]bool{}
		needs(name, route)
		n, err := size(route, entry)
		if err != nil {
			return nil, err
		}
		if n > largest {
			largest, largestName = n, name
		}
	}
	out["route_kb"], out["route"] = largest, largestName
	return out, nil
}

// gzipped returns how long a file is when compressed as the hub sends it.
func gzipped(path string) (int64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	var n counter
	w, err := gzip.NewWriterLevel(&n, gzip.BestCompression)
	if err != nil {
		return 0, err
	}
	if _, err := io.Copy(w, strings.NewReader(string(data))); err != nil {
		return 0, err
	}
	return int64(n), w.Close()
}

// counter counts the bytes that are written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
