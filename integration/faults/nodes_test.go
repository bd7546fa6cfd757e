package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/node/ledger"
	"github.com/deckhand-sh/deckhand/node/nodetest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// envNodes makes the test binary play nodes without jails, of the fleetConfig in the file that
// it names.
const envNodes = "DECKHAND_TEST_NODES"

// fleetConfig is what a process of simulated nodes is told. Identity, enrolment, link, session
// and ledger are those of deckhand-node; what runs is a clock.
type fleetConfig struct {
	HubURL string
	Nodes  []simulated
}

type simulated struct{ Name, Dir, Token string }

const (
	ledgerFile = "ledger.db"
	// effectsFile has a line for each effect of a node's commands.
	effectsFile = "effects"
	// enrolAtOnce is how many nodes of a process enrol at once.
	enrolAtOnce = 8
)

// serveNodes is that process. It does not return.
func serveNodes(path string) {
	if err := runNodes(path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runNodes(path string) error {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var cfg fleetConfig
	if err := json.Unmarshal(data, &cfg); err != nil {
		return err
	}
	free := make(chan struct{}, enrolAtOnce)
	failed := make(chan error, len(cfg.Nodes))
	var all sync.WaitGroup
	for _, one := range cfg.Nodes {
		free <- struct{}{}
		all.Go(func() {
			err := one.start(ctx, cfg.HubURL)
			<-free
			if err != nil {
				failed <- fmt.Errorf("%s: %w", one.Name, err)
			}
		})
	}
	all.Wait()
	select {
	case err := <-failed:
		return err // it is started again
	default:
	}
	<-ctx.Done()
	return nil
}

func (s simulated) start(ctx context.Context, hubURL string) error {
	log, err := ledger.Open(ledger.Config{Path: filepath.Join(s.Dir, ledgerFile), Reserve: -1})
	if err != nil {
		return err
	}
	effects, err := openEffects(filepath.Join(s.Dir, effectsFile))
	if err != nil {
		return err
	}
	node, err := nodetest.New(ctx, nodetest.Config{
		Dir: filepath.Join(s.Dir, "identity"), HubURL: hubURL, JoinToken: s.Token, Name: s.Name, Ledger: log, Run: effects.run,
	})
	if err != nil {
		return err
	}
	return node.Start(context.WithoutCancel(ctx))
}

// effects simulates what an init does: it begins a command once, and goes on when the daemon
// is away.
type effects struct {
	mu    sync.Mutex
	file  *os.File
	begun map[string]time.Time // by exec id
}

func openEffects(path string) (*effects, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	e := &effects{file: file, begun: map[string]time.Time{}}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var at int64
		var id string
		if _, err := fmt.Sscan(lines.Text(), &at, &id); err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		e.begun[id] = time.Unix(0, at)
	}
	return e, nil
}

// run is the command "effect NUMBER DURATION": it leaves a line, and takes its time.
func (e *effects) run(ctx context.Context, spec *nodev1.ExecSpec) (string, *nodev1.Exec) {
	var number string
	var takes time.Duration
	if _, after, ok := strings.Cut(strings.Join(spec.GetArgv(), " "), "effect "); ok {
		var text string
		_, _ = fmt.Sscan(after, &number, &text) // the rest is 0 without them
		takes, _ = time.ParseDuration(text)
	}
	end := &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_EXITED}
	began, err := e.begin(spec, number)
	if err != nil {
		end.ExitCode = 1
		return "", end
	}
	timer := time.NewTimer(time.Until(began.Add(takes)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		end.EndReason = nodev1.EndReason_END_REASON_KILLED
	}
	return "", end
}

func (e *effects) begin(spec *nodev1.ExecSpec, number string) (time.Time, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if at, ok := e.begun[spec.GetExecId()]; ok {
		return at, nil
	}
	now := time.Now()
	e.begun[spec.GetExecId()] = now
	_, err := fmt.Fprintf(e.file, "%d %s %s %s\n", now.UnixNano(), spec.GetExecId(), spec.GetJailId(), number)
	return now, err
}

// startNodes starts so many simulated nodes in a few processes, each of which can be killed.
func (r *rig) startNodes(on *host, count, processes int) (units []*unit) {
	r.t.Helper()
	for p := range processes {
		cfg := fleetConfig{HubURL: r.api}
		for i := p; i < count; i += processes {
			res, err := r.client.Nodes.CreateJoinToken(r.t.Context(), &deckhandv1.CreateJoinTokenRequest{})
			require.NoError(r.t, err)
			one := simulated{Name: fmt.Sprintf("node-%d", i+1), Dir: r.nodeDir(i + 1), Token: res.GetToken()}
			require.NoError(r.t, os.Mkdir(one.Dir, 0o711))
			cfg.Nodes = append(cfg.Nodes, one)
		}
		data, err := json.Marshal(cfg)
		require.NoError(r.t, err)
		name := fmt.Sprintf("nodes-%d", p+1)
		path := filepath.Join(r.dir, name+".json")
		require.NoError(r.t, os.WriteFile(path, data, 0o600))
		units = append(units, r.unit(name, syscall.SIGTERM, func() *exec.Cmd {
			cmd := on.command(os.Args[0])
			cmd.Env = append(os.Environ(), envNodes+"="+path)
			return cmd
		}))
	}
	r.linked(count)
	return units
}

// linked waits until so many nodes are connected.
func (r *rig) linked(count int) {
	r.t.Helper()
	r.eventually(2*time.Minute, "all nodes to be connected", func() bool { return r.connected() >= count })
}

func (r *rig) connected() int {
	type row struct{ N int }
	return rows[row](r, "SELECT count(*)::int FROM node_sessions WHERE connected")[0].N
}

// effect is a line of a node's effects: what a command did.
type effect struct{ Exec, Jail, Number string }

// effects returns what all nodes' commands did.
func (r *rig) effects() (out []effect) {
	r.t.Helper()
	paths, err := filepath.Glob(filepath.Join(r.dir, "node-*", effectsFile))
	require.NoError(r.t, err)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(r.t, err)
		for line := range strings.Lines(string(data)) {
			fields := strings.Fields(line)
			require.Len(r.t, fields, 4, path)
			out = append(out, effect{Exec: fields[1], Jail: fields[2], Number: fields[3]})
		}
	}
	return out
}
