// Package doctor is the command "deckhand doctor": it checks a hub, its
// database, workers, nodes and providers, and says how to fix every problem that it finds. It changes nothing.
// A machine that is to be a node is checked by `deckhand-node doctor`.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/pressure"
	"github.com/deckhand-sh/deckhand/internal/version"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// Command returns the command "deckhand doctor".
func Command(e *env.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check the hub, its nodes, workers and providers, and show how to fix problems",
		Long: `Checks that the hub answers, that its database and bus work, that your token is
valid, that nodes are connected and have room, that workers take tasks, and that
providers are connected and take their keys. The hub checks its database (version,
clock, connections, dead rows, long transactions, schema), the bus, the other hubs,
triggers that fail, keys that expire and quotas, and every node checks itself.
Each line that is not ok has a fix. The exit code is 1 when something keeps tasks from
running or puts data at risk. Nothing is changed.`,
		Example: "deckhand doctor\ndeckhand doctor --problems\ndeckhand doctor --json",
		Args:    env.Args(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), e, o) },
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON: as -o json")
	cmd.Flags().BoolVar(&o.problems, "problems", false, "show only what is not ok")
	cmd.PersistentFlags().BoolVar(&o.noCalls, "no-calls", false, "make no test calls to providers")
	cmd.AddCommand(bundleCommand(e, &o))
	return cmd
}

// options are the flags of doctor.
type options struct{ json, problems, noCalls bool }

// The states of a finding.
const (
	ok   = "ok"
	warn = "warn" // tasks run, and something is less than it could be
	fail = "fail" // no task runs
)

type finding struct{ name, state, says, fix string }

// patience bounds each check.
const patience = 5 * time.Second

func run(ctx context.Context, e *env.Env, o options) error {
	client, err := e.Client()
	if err != nil {
		return err
	}
	if o.json {
		e.Format = output.JSON
	}
	findings := check(ctx, client, !o.noCalls)
	failed := 0
	var items []*structpb.Struct
	for _, f := range findings {
		if f.state == fail {
			failed++
		}
		if o.problems && f.state == ok {
			continue
		}
		item, err := f.item()
		if err != nil {
			return err
		}
		items = append(items, item)
	}
	if err := output.List(e.Printer(), noun, items); err != nil {
		return err
	}
	if failed > 0 {
		return env.Failed(env.ExitFailed, fault.New(fault.Precondition, "%d of %d checks failed: no task runs before they are mended", failed, len(findings)))
	}
	return nil
}

func (f finding) item() (*structpb.Struct, error) {
	return structpb.NewStruct(map[string]any{"check": f.name, "state": f.state, "says": f.says, "fix": f.fix})
}

func field(name string) func(*structpb.Struct) string {
	return func(s *structpb.Struct) string { return s.GetFields()[name].GetStringValue() }
}

var noun = output.Noun[*structpb.Struct]{
	Name: field("check"),
	Columns: []output.Column[*structpb.Struct]{
		{Header: "check", Value: field("check")},
		{Header: "state", Value: field("state"), Style: func(s *structpb.Struct) lipgloss.Style {
			switch field("state")(s) {
			case ok:
				return lipgloss.NewStyle().Foreground(lipgloss.Green)
			case warn:
				return output.Warn
			}
			return output.Bad
		}},
		{Header: "what", Value: field("says")},
		{Header: "fix", Value: field("fix")},
	},
}

// check makes all checks. Those that need the hub are left out when it is away.
func check(ctx context.Context, client *sdk.Client, calls bool) []finding {
	findings, up := ready(ctx, client)
	if !up {
		return append(findings, disk(ctx)...)
	}
	login := within(ctx, func(ctx context.Context) []finding { return []finding{token(ctx, client)} })
	findings = append(findings, login...)
	if login[0].state == fail {
		return findings
	}
	findings = append(findings, within(ctx, func(ctx context.Context) []finding { return listed(ctx, client) })...)
	return append(findings, diagnosed(ctx, client, calls)...)
}

// within bounds checks.
func within(ctx context.Context, checks func(ctx context.Context) []finding) []finding {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	return checks(ctx)
}

// diagnosePatience bounds the checks that the hub makes, which wait for its nodes.
const diagnosePatience = time.Minute

// states are the hub's states of findings.
var states = map[deckhandv1.FindingState]string{
	deckhandv1.FindingState_FINDING_STATE_OK: ok, deckhandv1.FindingState_FINDING_STATE_WARN: warn, deckhandv1.FindingState_FINDING_STATE_FAIL: fail,
}

// diagnosed returns what the hub finds, of itself and of its nodes.
func diagnosed(ctx context.Context, client *sdk.Client, calls bool) []finding {
	ctx, stop := context.WithTimeout(ctx, diagnosePatience)
	defer stop()
	res, err := client.Diagnostics.Diagnose(ctx, &deckhandv1.DiagnoseRequest{CallProviders: calls})
	if connect.CodeOf(err) == connect.CodeUnimplemented {
		return []finding{{"hub checks", warn, "this hub is of an older release, which does not check itself", "upgrade the hub"}}
	}
	if err != nil {
		return []finding{refused("hub checks", err)}
	}
	var out []finding
	for _, f := range res.GetFindings() {
		state := states[f.GetState()]
		if state == "" {
			state = warn
		}
		out = append(out, finding{termsafe.Line(f.GetCheck()), state, termsafe.Line(f.GetEvidence()), termsafe.Line(f.GetFix())})
	}
	return out
}

// listed returns what the lists of nodes, workers, providers and holds show.
func listed(ctx context.Context, client *sdk.Client) []finding {
	return slices.Concat(nodes(ctx, client), []finding{workers(ctx, client)}, providers(ctx, client), holds(ctx, client))
}

// maxReport bounds what is read of /readyz, in bytes.
const maxReport = 4 << 10

// ready asks the hub what it needs: /readyz has one line for each.
func ready(ctx context.Context, client *sdk.Client) ([]finding, bool) {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, client.URL()+"/readyz", nil)
	if err != nil {
		return []finding{{"hub", fail, err.Error(), "check --hub"}}, false
	}
	res, err := client.HTTPClient().Do(request)
	if err != nil {
		return []finding{{"hub", fail, termsafe.Line(fmt.Sprintf("%s does not answer: %s", client.URL(), cause(err))),
			"start it: `sudo deckhand up`, or on its machine `systemctl start deckhand`; its log is in its data folder"}}, false
	}
	defer func() { _ = res.Body.Close() }()
	report, err := io.ReadAll(io.LimitReader(res.Body, maxReport))
	if err != nil || res.StatusCode != http.StatusOK && res.StatusCode != http.StatusServiceUnavailable {
		return []finding{{"hub", fail, fmt.Sprintf("what answers at %s is not a Deckhand hub", client.URL()), "check --hub"}}, false
	}
	findings := []finding{{"hub", ok, client.URL(), ""}}
	for line := range strings.Lines(string(report)) {
		name, says, found := strings.Cut(termsafe.Line(strings.TrimSpace(line)), ": ")
		if !found || name == "serving" && says == ok {
			continue
		}
		f := finding{name: name, state: ok, says: says}
		if degraded, is := strings.CutPrefix(says, "degraded: "); is {
			f.state, f.says, f.fix = warn, degraded, "it mends itself; if it does not, see the hub's log"
		} else if says != ok {
			f.state, f.fix = fail, "see the hub's log; `deckhand up` keeps it in log/up.jsonl of its data folder"
		}
		if says == ok {
			f.says = ""
		}
		findings = append(findings, f)
	}
	return findings, true
}

// cause is the last reason of a connection that failed.
func cause(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err
}

func token(ctx context.Context, client *sdk.Client) finding {
	_, err := client.Agents.ListAgents(ctx, &deckhandv1.ListAgentsRequest{PageSize: 1})
	if err != nil {
		return finding{"token", fail, termsafe.Line(fault.FromConnect(err).Error()), "give this hub's token with --token or DECKHAND_TOKEN, or choose its context: `deckhand context list`"}
	}
	return finding{"token", ok, "", ""}
}

// refused is the finding of a list that the caller may not see, or that fails.
func refused(name string, err error) finding {
	problem := fault.FromConnect(err)
	if fault.Is(problem, fault.Denied) {
		return finding{name, warn, "you may not see them", "ask an administrator to run `deckhand doctor`"}
	}
	return finding{name, fail, termsafe.Line(problem.Error()), "see the hub's log"}
}

func nodes(ctx context.Context, client *sdk.Client) []finding {
	res, err := client.Nodes.ListNodes(ctx, &deckhandv1.ListNodesRequest{PageSize: env.PageSize})
	if err != nil {
		return []finding{refused("nodes", err)}
	}
	var out []finding
	usable := 0
	for _, n := range res.GetNodes() {
		name := "node " + termsafe.Line(n.GetName())
		switch {
		case n.GetStatus() == "revoked":
			continue
		case n.GetStatus() != "connected":
			out = append(out, finding{name, warn, "not connected since " + output.Moment(n.GetLastSeenAt()), "on its machine: `deckhand-node doctor`, and `systemctl status deckhand-node`"})
			continue
		case n.GetDrain() != nil:
			out = append(out, finding{name, warn, "drained by " + termsafe.Line(n.GetDrain().GetBy()), "`deckhand node undrain " + termsafe.Line(n.GetName()) + "`"})
			continue
		case n.GetLock() != nil:
			out = append(out, finding{name, warn, "locked by " + termsafe.Line(n.GetLock().GetBy()), "`deckhand node unlock " + termsafe.Line(n.GetName()) + "` when that work is done"})
			continue
		case n.GetPressure() != "":
			out = append(out, finding{name, warn, "starts nothing new: " + termsafe.Line(n.GetPressure()), "free what is short, or raise the limit: --pressure-max-load, --pressure-min-memory, --pressure-min-disk"})
		case n.GetVersion() != version.Version:
			out = append(out, finding{name, ok, fmt.Sprintf("version %s; this command is %s", termsafe.Line(n.GetVersion()), version.Version), ""})
		default:
			out = append(out, finding{name, ok, "connected", ""})
		}
		usable++
	}
	if usable == 0 {
		out = append(out, finding{"nodes", fail, "no node takes tasks", "add one: `deckhand node token` says how"})
	}
	return out
}

func workers(ctx context.Context, client *sdk.Client) finding {
	res, err := client.Queue.ListWorkers(ctx, &deckhandv1.ListWorkersRequest{PageSize: env.PageSize})
	if err != nil {
		return refused("workers", err)
	}
	var slots, active int32
	var why []string
	for _, w := range res.GetWorkers() {
		if w.GetPressure() != "" || w.GetDrain() != nil {
			why = append(why, termsafe.Line(w.GetName()+": "+w.GetPressure()))
			continue
		}
		slots, active = slots+w.GetSlots(), active+w.GetActive()
	}
	switch {
	case len(res.GetWorkers()) == 0:
		return finding{"workers", fail, "no worker runs", "start one: `deckhand worker --hub-url " + client.URL() + "` with the token of `deckhand token create rack-2 --worker`"}
	case slots == 0:
		return finding{"workers", fail, "none takes tasks: " + strings.Join(why, "; "), "free what is short, or raise --pressure-max-load of the worker; a drained one: `deckhand workers undrain`"}
	case active == slots:
		return finding{"workers", warn, fmt.Sprintf("all %d slots are in use: tasks wait", slots), "start another worker, or raise --slots"}
	}
	return finding{"workers", ok, fmt.Sprintf("%d of %d slots in use", active, slots), ""}
}

func providers(ctx context.Context, client *sdk.Client) []finding {
	res, err := client.Providers.ListProviders(ctx, &deckhandv1.ListProvidersRequest{})
	if err != nil {
		return []finding{refused("providers", err)}
	}
	var out []finding
	for _, p := range res.GetProviders() {
		name := "provider " + termsafe.Line(p.GetName())
		switch {
		case p.GetRefusedAt() != nil:
			out = append(out, finding{name, warn, "refuses its key since " + output.Moment(p.GetRefusedAt()), "`deckhand provider connect " + termsafe.Line(p.GetName()) + "` with a new one"})
		case p.GetExpiresAt() != nil && time.Until(p.GetExpiresAt().AsTime()) < 0 && !p.GetLogin():
			out = append(out, finding{name, warn, "its key ended at " + output.Moment(p.GetExpiresAt()), "`deckhand provider connect " + termsafe.Line(p.GetName()) + "` with a new one"})
		default:
			out = append(out, finding{name, ok, "connected", ""})
		}
	}
	if len(out) == 0 {
		return []finding{{"providers", warn, "no model is connected: only scripted agents run", "`deckhand provider connect anthropic --key-file key.txt`"}}
	}
	return out
}

// holds reports what keeps everybody's tasks from starting.
func holds(ctx context.Context, client *sdk.Client) (out []finding) {
	res, err := client.Control.ListHolds(ctx, &deckhandv1.ListHoldsRequest{})
	if err != nil {
		return nil
	}
	for _, h := range res.GetHolds() {
		if h.GetReleasedAt() == nil && h.GetScope() == deckhandv1.KillScope_KILL_SCOPE_ORGANISATION {
			out = append(out, finding{"holds", fail, termsafe.Line(fmt.Sprintf("the organisation is held by %s: %s", h.GetHeldBy(), h.GetReason())), "`deckhand hold release " + h.GetId() + "`"})
		}
	}
	return out
}

// disk reports a full disk of this machine, which is why a hub here may not start.
func disk(ctx context.Context) []finding {
	figures, err := pressure.Machine("/")(ctx)
	if err != nil {
		return nil
	}
	if short := (pressure.Limits{MinDisk: 5}).Sentence(figures); short != "" {
		return []finding{{"disk", fail, short, "free some of it: a full disk keeps the database from starting"}}
	}
	return []finding{{"disk", ok, output.Size(int64(figures.DiskFree)) + " free on this machine", ""}}
}
