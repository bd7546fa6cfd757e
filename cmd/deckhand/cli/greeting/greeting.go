// Package greeting is what `deckhand up` says to a person at a terminal: what it
// started, how to open the console, what to do next, and one line for each task
// that ends. Without a terminal nothing of it is used: there the log is all that
// is written.
//
// A Greeting writes whole lines, from any goroutine. What it cannot find out it
// leaves out: a greeting never keeps a hub from running.
package greeting

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/colorprofile"
	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/internal/drain"
	"github.com/deckhand-sh/deckhand/internal/logging"
	"github.com/deckhand-sh/deckhand/internal/pressure"
	"github.com/deckhand-sh/deckhand/internal/version"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// Config says what is greeted about.
type Config struct {
	Out io.Writer
	// DataDir is the data folder of the hub, and LogFile where its log goes.
	DataDir, LogFile string
	// Slots is how many tasks the worker runs at once.
	Slots int
	// Limits are when nothing new is started.
	Limits pressure.Limits
	// SSH is the command that forwards the console's port to another machine, with
	// the host in it; empty when the machine's name is not known.
	SSH string
	// Service is the systemd service that runs, and ConfigFile its configuration;
	// empty for a program at this terminal.
	Service, ConfigFile string
	// Now is the clock; nil for time.Now.
	Now func() time.Time
}

// Greeting is one start of `deckhand up`.
type Greeting struct {
	cfg Config

	mu  sync.Mutex
	out io.Writer
	// begun says that the name of the program was written.
	begun bool
}

// New creates a Greeting. Nothing is written yet.
func New(cfg Config) *Greeting {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Greeting{cfg: cfg, out: &colorprofile.Writer{Forward: cfg.Out, Profile: output.Colours(cfg.Out)}}
}

// linef writes one line. A terminal that is gone is not worth an error.
func (g *Greeting) linef(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, _ = fmt.Fprintf(g.out, format+"\n", args...)
}

// fieldf writes a line of the list of what runs.
func (g *Greeting) fieldf(name, format string, args ...any) {
	g.mu.Lock()
	begun := g.begun
	g.begun = true
	g.mu.Unlock()
	if !begun {
		g.linef("Deckhand %s", version.Version)
	}
	g.linef("  %-11s %s", name, fmt.Sprintf(format, args...))
}

// notable is from which time on the start of a part is worth a figure.
const notable = 200 * time.Millisecond

// Started says that a part runs.
func (g *Greeting) Started(name string, took time.Duration) {
	switch name {
	case "hub", "node", "worker", "metrics":
		return // Up says more about them
	}
	if took < notable {
		g.fieldf(name, "started")
		return
	}
	g.fieldf(name, "started   %s", output.Dim.Render(fmt.Sprintf("(%.1f s)", took.Seconds())))
}

// patience bounds what is asked for a greeting.
const patience = 10 * time.Second

// Up says that everything runs, and what to do next. client calls the hub as its
// administrator; who is what to say about the person who used sudo, or "".
func (g *Greeting) Up(ctx context.Context, client *sdk.Client, who string) {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	g.fieldf("hub", "%s", client.URL())
	figures, err := pressure.Machine(g.cfg.DataDir)(ctx)
	if nodes, listed := client.Nodes.ListNodes(ctx, &deckhandv1.ListNodesRequest{PageSize: 1}); listed == nil && len(nodes.GetNodes()) > 0 && err == nil {
		g.fieldf("node", "%s · %d CPUs · %s · %s of disk free", termsafe.Line(nodes.GetNodes()[0].GetName()), figures.Cores,
			output.Size(int64(figures.MemoryTotal)), output.Size(int64(figures.DiskFree)))
	}
	g.fieldf("worker", "%d slots", g.cfg.Slots)
	if short := g.cfg.Limits.Sentence(figures); err == nil && short != "" {
		g.linef("\n%s", output.Warn.Render("Tasks wait: "+short+". Change that with --pressure-max-load, --pressure-min-memory or --pressure-min-disk (off for never)."))
	}
	g.console(ctx, client)
	if who != "" {
		g.linef("\n%s", who)
	}
	g.next(ctx, client)
	if g.cfg.Service != "" {
		g.linef("\nIt runs as the service %[1]s, and starts with this machine: systemctl status %[1]s, systemctl stop %[1]s", g.cfg.Service)
		g.linef("  Data          %s", g.cfg.DataDir)
		g.linef("  Settings      %s, then: systemctl restart %s", g.cfg.ConfigFile, g.cfg.Service)
		g.linef("  Logs          journalctl -u %s", g.cfg.Service)
		g.linef("  Remove        deckhand up --uninstall; data stays\n")
		return
	}
	g.linef("\nData: %s        To run it as a service: deckhand up --install", g.cfg.DataDir)
	g.linef("Logs: %s        Ctrl-C stops everything; nothing is lost.\n", g.cfg.LogFile)
}

// console shows the link that opens the console, logged in.
func (g *Greeting) console(ctx context.Context, client *sdk.Client) {
	code, err := client.Sessions.CreateLoginCode(ctx, &deckhandv1.CreateLoginCodeRequest{})
	if err != nil {
		g.linef("\nOpen the console with: deckhand open")
		return
	}
	lasts := code.GetExpiresAt().AsTime().Sub(g.cfg.Now()).Round(time.Minute)
	g.linef("\nOpen the console (this link logs you in once, within %d minutes; another one: deckhand open):", int(lasts.Minutes()))
	g.linef("  %s", output.Bold.Render(LoginLink(client.URL(), code.GetCode())))
	if forward := Forward(client.URL(), g.cfg.SSH); forward != "" {
		g.linef("From another machine:  %s   and then the same link", forward)
	}
}

// LoginLink is the link that opens the console with a login code. The code stands
// after the #, which browsers do not send.
func LoginLink(hubURL, code string) string { return hubURL + "/login#code=" + url.QueryEscape(code) }

// Forward returns the command that brings a hub on this machine's loopback to
// another machine; "" for a hub that is reached without, or an unknown target.
func Forward(hubURL, target string) string {
	u, err := url.Parse(hubURL)
	if err != nil || target == "" {
		return ""
	}
	ip := net.ParseIP(u.Hostname())
	if u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return ""
	}
	return fmt.Sprintf("ssh -L %s:%s %s", u.Port(), u.Host, target)
}

// next shows the commands of the first hour, without what is done already.
func (g *Greeting) next(ctx context.Context, client *sdk.Client) {
	var lines [][2]string
	if res, err := client.Providers.ListProviders(ctx, &deckhandv1.ListProvidersRequest{}); err == nil && len(res.GetProviders()) == 0 {
		lines = append(lines, [2]string{"deckhand provider connect anthropic --key-file key.txt", "connect a model"})
	}
	if res, err := client.Agents.ListAgents(ctx, &deckhandv1.ListAgentsRequest{PageSize: 1}); err == nil && len(res.GetAgents()) == 0 {
		lines = append(lines, [2]string{"deckhand agent apply -f personas/", "agents to begin with"},
			[2]string{`deckhand run log-triage "What happened here?" --input /var/log/dpkg.log --wait`, ""})
	}
	if len(lines) == 0 {
		return
	}
	g.linef("\nNext, in another terminal:")
	for _, line := range lines {
		g.linef("  %s", strings.TrimRight(fmt.Sprintf("%-58s %s", line[0], output.Dim.Render(line[1])), " "))
	}
}

// Tasks writes a line for each task that ends, until ctx ends.
func (g *Greeting) Tasks(ctx context.Context, client *sdk.Client) {
	request := &deckhandv1.WatchRequest{Follow: true, FromNow: true, Types: []string{"execution_completed", "execution_failed", "execution_cancelled"}}
	for res, err := range client.Watch(ctx, request) {
		if err != nil {
			return
		}
		if res.GetEvent().GetTaskId() != "" {
			g.ended(ctx, client, res.GetEvent())
		}
	}
}

func (g *Greeting) ended(ctx context.Context, client *sdk.Client, event *deckhandv1.Event) {
	res, err := client.Tasks.GetTask(ctx, &deckhandv1.GetTaskRequest{TaskId: event.GetTaskId()})
	if err != nil {
		return
	}
	task := res.GetTask()
	took := ""
	if task.GetStartedAt() != nil && task.GetFinishedAt() != nil {
		took = " in " + seconds(task.GetFinishedAt().AsTime().Sub(task.GetStartedAt().AsTime()))
	}
	g.linef("%s  %s  %s  %s%s", output.Dim.Render(g.cfg.Now().Format(time.TimeOnly)), termsafe.Line(task.GetAgentName()), termsafe.Line(task.GetId()),
		output.TaskStyle(task).Render(output.TaskState(task)), took)
}

// seconds writes how long a task took: "2.1 s" or "12 min".
func seconds(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return output.Duration(d)
}

// Errors returns a writer of the log that copies it to log and shows the errors in
// it, and what a stop waits for, as lines for people.
func (g *Greeting) Errors(log io.Writer) io.Writer { return &errorLines{g: g, log: log} }

// errorLines is the log's sink. hclog writes one line at a time.
type errorLines struct {
	g   *Greeting
	log io.Writer
}

func (w *errorLines) Write(line []byte) (int, error) {
	entry, err := logging.Parse(line)
	at := output.Dim.Render(w.g.cfg.Now().Format(time.TimeOnly))
	switch {
	case err != nil:
	case entry.Level == hclog.Error:
		text := entry.Message
		if why := entry.Text(logging.Error); why != "" {
			text += ": " + why
		}
		w.g.linef("%s  %s  %s: %s", at, output.Bad.Render("error"), strings.TrimPrefix(entry.Component, "up."), termsafe.Line(text))
	case entry.Message == drain.Waiting:
		w.g.linef("%s  waiting %s for %s of the %s to end: %s", at, termsafe.Line(entry.Text("time_left")), termsafe.Line(entry.Text("running")), entry.Role(), termsafe.Line(entry.Text("what")))
	}
	return w.log.Write(line)
}
