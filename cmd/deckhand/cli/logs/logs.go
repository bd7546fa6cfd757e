// Package logs is the command "deckhand logs": it brings the logs of hub, worker and node
// together by time, and follows one task through all of them.
//
// It reads files and the journal of this machine, and calls no hub. Lines that are not of the
// schema of internal/logging, such as those of a crash, are counted and left out.
package logs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/internal/datadir"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// services are the systemd units whose journal is read by default.
const services = "deckhand*"

// options are the flags of logs.
type options struct {
	filter

	level, since, journalDir string
	units                    []string
	follow, json             bool
}

// Command returns the command "deckhand logs".
func Command(e *env.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use: "logs [FILE...]", Short: "Show the logs of hub, workers and nodes together, for one task or all",
		Long: `Shows log lines of all roles in the order of their times. With --task only those of
one task are shown: lines that name the task or one of its steps, and lines of the request
that submitted it which name no other task or step.

It reads the files that are named (- is standard input), or else the log of deckhand up on
this machine and the journal of the services whose names begin with deckhand. Lines of
standard input are shown as they come: those before the first that names the task are not
known to be of it, so save long logs to a file. The roles must log as JSON, as they do by
default. Logs of other machines are not fetched: copy them here, or send them to one place,
and name the files.`,
		Example: `deckhand logs --task task_3q9
deckhand logs --follow --level warn
deckhand logs hub.jsonl worker.jsonl node.jsonl --task task_3q9
ssh web-1 journalctl --unit deckhand-node --output cat | deckhand logs - hub.jsonl --since 1h`,
		RunE: func(cmd *cobra.Command, args []string) error { return run(cmd, e, args, o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.task, "task", "", "only lines of this task: its id or the beginning of it")
	flags.StringVar(&o.step, "step", "", "only lines of this step: its id or the beginning of it")
	flags.StringVar(&o.node, "node", "", "only lines of this node: its id or the beginning of it")
	flags.StringVar(&o.role, "role", "", "only lines of this role: hub, worker, node or up")
	flags.StringVar(&o.level, "level", "trace", "the least `LEVEL`: trace, debug, info, warn or error")
	flags.StringVar(&o.since, "since", "", "only lines from this `TIME` on: 10m ago, or 2026-01-31T10:00:00Z")
	flags.BoolVarP(&o.follow, "follow", "f", false, "go on with new lines until Ctrl-C")
	flags.StringSliceVar(&o.units, "unit", nil, "read the journal of this systemd `UNIT`, with * and ? as in file names; may be repeated")
	flags.StringVar(&o.journalDir, "journal-dir", "", "folder of journal files to read in place of the machine's own journal")
	flags.BoolVar(&o.json, "json", false, "print the lines as JSON: as -o json")
	return cmd
}

func run(cmd *cobra.Command, e *env.Env, files []string, o options) error {
	if o.least = hclog.LevelFromString(o.level); o.least == hclog.NoLevel {
		return env.Usage(cmd, "--level is %q, give trace, debug, info, warn or error", o.level)
	}
	if o.role != "" && !slices.Contains([]string{"hub", "worker", "node", "up"}, o.role) {
		return env.Usage(cmd, "--role is %q, give hub, worker, node or up", o.role)
	}
	if o.since != "" {
		var err error
		if o.from, err = since(o.since, e.Now()); err != nil {
			return env.Usage(cmd, "--since is %q, give a duration such as 10m, or a time such as 2026-01-31T10:00:00Z", o.since)
		}
	}
	sources, err := o.sources(e, files)
	if err != nil {
		return err
	}
	defer func() {
		for _, s := range sources {
			s.close()
		}
	}()
	p := &printer{out: e.Out, json: o.json || e.Format == output.JSON || e.Format == output.JSONL, colour: output.Colours(e.Out)}
	r := &reader{filter: &o.filter, sources: sources, show: p.line}
	ctx := cmd.Context()
	if err := r.learn(ctx); err != nil {
		return err
	}
	if err := r.merge(ctx); err != nil {
		return err
	}
	o.sayEmpty(e, sources)
	if o.follow {
		err = r.follow(ctx)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	switch {
	case r.skipped == 1:
		e.Notef("skipped 1 line that is not of a log in JSON: the roles need --log-format json")
	case r.skipped > 1:
		e.Notef("skipped %d lines that are not of a log in JSON: the roles need --log-format json", r.skipped)
	}
	if r.shown == 0 && !o.follow {
		e.Notef("no line matches")
	}
	return nil
}

// sayEmpty names the journals that had nothing, where nothing else was read.
func (o *options) sayEmpty(e *env.Env, sources []source) {
	var units []string
	for _, s := range sources {
		j, ok := s.(*journal)
		if !ok || j.cursor != "" {
			return
		}
		units = append(units, j.unit)
	}
	text := "the journal has no line of " + strings.Join(units, " or ")
	if o.since != "" {
		text += " since " + o.since
	}
	if os.Geteuid() != 0 {
		text += " that you may read: use sudo, or be in the group systemd-journal"
	}
	e.Notef("%s", text)
}

// since returns the time that a duration before now, or a time, names.
func since(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(strings.TrimSpace(strings.TrimSuffix(text, "ago"))); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at, nil
		}
	}
	return time.Time{}, errors.New("not a time")
}

// sources opens what the flags name.
func (o *options) sources(e *env.Env, files []string) ([]source, error) {
	var out []source
	for _, name := range files {
		if name == "-" {
			out = append(out, &stream{in: e.In})
			continue
		}
		f, err := openFile(name, !o.follow)
		switch {
		case err != nil && strings.HasPrefix(name, "task_"):
			return nil, env.Unreadable(name, err).
				WithFix("for what the commands of a task wrote: `deckhand task logs %s`; for what hub, workers and nodes logged of it: deckhand logs --task %[1]s", name)
		case err != nil:
			return nil, env.Unreadable(name, err)
		}
		out = append(out, f)
	}
	for _, unit := range o.units {
		out = append(out, o.journal(unit))
	}
	if len(out) > 0 {
		return out, nil
	}
	return o.local(e)
}

// local opens the logs of this machine. Those of deckhand up at a terminal are files, and the
// services have the journal; a machine may have had both.
func (o *options) local(e *env.Env) ([]source, error) {
	set, err := e.Settings()
	if err != nil {
		return nil, err
	}
	dir := set.DataDir
	if dir == "" {
		if dir, err = datadir.Default(); err != nil {
			return nil, err
		}
	}
	out, err := o.files(dir)
	if err != nil {
		return nil, env.Unreadable(filepath.Join(dir, datadir.LogFile), err)
	}
	if len(out) == 0 && set.DataDir == "" && dir != datadir.System {
		switch out, err = o.files(datadir.System); {
		case errors.Is(err, os.ErrPermission):
			e.Notef("%s cannot be read: use sudo for the log of a deckhand up of root", filepath.Join(datadir.System, datadir.LogFile))
		case err != nil:
			return nil, env.Unreadable(filepath.Join(datadir.System, datadir.LogFile), err)
		}
	}
	_, err = exec.LookPath("journalctl")
	switch {
	case err == nil && (set.DataDir == "" || o.journalDir != ""):
		out = append(out, o.journal(services))
	case len(out) == 0:
		return nil, fault.New(fault.NotFound, "there is no log: %s does not exist", filepath.Join(dir, datadir.LogFile)).
			WithFix("name the files of the roles' logs, or the data folder of deckhand up with --data-dir; as a service, read its journal with --unit deckhand.service")
	}
	return out, nil
}

// files opens the log in a data folder, if it has one, and those before it, which have the
// time of their end in their names.
func (o *options) files(dir string) ([]source, error) {
	current := filepath.Join(dir, datadir.LogFile)
	names, err := filepath.Glob(strings.TrimSuffix(current, ".jsonl") + "-*.jsonl")
	if err != nil {
		return nil, fmt.Errorf("look for logs in %s: %w", dir, err)
	}
	var out []source
	for _, name := range append(names, current) {
		switch f, err := openFile(name, !o.follow); {
		case err == nil:
			out = append(out, f)
		case !errors.Is(err, os.ErrNotExist):
			return nil, err
		}
	}
	return out, nil
}

func (o *options) journal(unit string) *journal {
	// --all: without it a long message is left out.
	j := &journal{unit: unit, args: []string{"--output", "json", "--all", "--no-pager", "--quiet", "--unit", unit}}
	if o.journalDir != "" {
		j.args = append(j.args, "--directory", o.journalDir)
	}
	// Lines of a task are known by those before, which are read as well.
	if !o.from.IsZero() && o.task == "" {
		j.args = append(j.args, "--since", o.from.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	return j
}
