// Package journal reads what a machine's systemd says of its services: the state of units, and
// entries of the journal. Machine does both for the units that the node's operator shows, with
// the fields that they show; by default for none. It also returns the daemon's own log, which
// Own holds in memory, so that it can be read on machines without systemd too.
//
// It runs systemctl and journalctl, which only read, and bounds what they return in bytes,
// entries and time. Patterns of messages are matched here, with RE2: a pattern cannot take
// longer than the text is long. A machine without systemd gives an error that says so.
package journal

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/journalfield"
	"github.com/deckhand-sh/deckhand/internal/textcut"
	"github.com/deckhand-sh/deckhand/node/jail"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Config is what the operator shows.
type Config struct {
	// Units are names of units, with * and ? as in file names: nginx.service, app-*.service.
	Units []string
	// Fields are those of an entry that are shown beside its time and message, such as
	// PRIORITY or _PID.
	Fields []string
	// Dir is a folder with journal files to read; empty for the machine's own journal.
	Dir string
	// Own is the daemon's own log; nil for none.
	Own *Own
}

// Machine reads one machine's services. It is safe for concurrent use.
type Machine struct{ cfg Config }

const (
	runTimeout   = 20 * time.Second
	defaultLines = 100
	maxLines     = 1000
	// maxMessage is how much of a message is returned, and maxField of another field, in bytes.
	maxMessage = 4 << 10
	maxField   = 256
	// maxRead is how much of journalctl's output is looked at for one call, in bytes, and
	// maxReturned how much is returned.
	maxRead     = 64 << 20
	maxReturned = 1 << 20
	// maxEntry is the longest entry in bytes, as journalctl writes it; a longer one is left out.
	maxEntry = 8 << 20
)

var (
	unitName   = regexp.MustCompile(`^[A-Za-z0-9:_.@\\-]{1,256}$`)
	cursorText = regexp.MustCompile(`^[A-Za-z0-9=;]{1,512}$`)
	fieldName  = regexp.MustCompile(`^[A-Z_][A-Z0-9_]{0,63}$`)
)

// New creates a Machine.
func New(cfg Config) (*Machine, error) {
	for _, pattern := range cfg.Units {
		if _, err := path.Match(pattern, "x"); err != nil || pattern == "" {
			return nil, fault.New(fault.Invalid, "journal-units: %q is no pattern of units", pattern).WithFix("write it as nginx.service or app-*.service")
		}
	}
	for _, name := range cfg.Fields {
		if !fieldName.MatchString(name) {
			return nil, fault.New(fault.Invalid, "journal-fields: %q is not the name of a field", name).WithFix("write it as PRIORITY or _PID")
		}
	}
	return &Machine{cfg}, nil
}

// Info returns what is installed.
func (m *Machine) Info(ctx context.Context) (*nodev1.MachineInfo, error) {
	out := &nodev1.MachineInfo{Architecture: runtime.GOARCH, Os: osName()}
	var names unix.Utsname
	if err := unix.Uname(&names); err != nil {
		return nil, fmt.Errorf("read the kernel's name: %w", err)
	}
	out.Kernel = unix.ByteSliceToString(names.Release[:])
	if jail.UnderSystemd() {
		if said, err := m.run(ctx, "systemctl", "--version"); err == nil {
			if words := strings.Fields(string(said)); len(words) > 1 {
				out.Systemd = words[1]
			}
		}
	}
	return out, nil
}

// osName returns PRETTY_NAME of os-release(5); empty if there is none.
func osName() string {
	raw, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(raw)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			return strings.Trim(value, `"'`)
		}
	}
	return ""
}

// shown refuses a unit that the operator does not show.
func (m *Machine) shown(unit string) error {
	if !unitName.MatchString(unit) {
		return fault.New(fault.Invalid, "%q is not the name of a unit", unit).WithCode(fault.InvalidParameters).WithFix("write it whole, such as nginx.service")
	}
	if slices.ContainsFunc(m.cfg.Units, func(pattern string) bool { ok, _ := path.Match(pattern, unit); return ok }) {
		return nil
	}
	e := fault.New(fault.Denied, "the operator of this node does not show the unit %s", unit).WithCode(fault.PermissionDenied)
	if len(m.cfg.Units) == 0 {
		return e.WithFix("have them set journal-units in node.yaml, which shows none now")
	}
	return e.WithFix("use one of %s, or have them add it to journal-units in node.yaml", strings.Join(m.cfg.Units, ", "))
}

// properties are those of a unit that are returned.
var properties = []string{
	"Id", "Description", "LoadState", "ActiveState", "SubState", "UnitFileState", "Result", "StateChangeTimestamp", "ActiveEnterTimestamp",
	"MainPID", "ExecMainStatus", "ExecMainStartTimestamp", "NRestarts", "MemoryCurrent", "TasksCurrent",
}

// Unit returns the state of a unit.
func (m *Machine) Unit(ctx context.Context, unit string) (map[string]string, error) {
	if err := m.shown(unit); err != nil {
		return nil, err
	}
	if !jail.UnderSystemd() {
		return nil, fault.New(fault.Precondition, "systemd does not run this machine, so that it has no units").WithFix("look at the service by its process or its log")
	}
	said, err := m.run(ctx, "systemctl", "show", "--no-pager", "--property="+strings.Join(properties, ","), "--", unit)
	if err != nil {
		return nil, err
	}
	out := parseProperties(said)
	if out["LoadState"] == "not-found" {
		return nil, fault.New(fault.NotFound, "there is no unit %s on this machine", unit).WithFix("check its name")
	}
	return out, nil
}

// parseProperties reads the output of systemctl show.
func parseProperties(said []byte) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(string(said)) {
		key, value, ok := strings.Cut(strings.TrimRight(line, "\n"), "=")
		if ok && slices.Contains(properties, key) && value != "" && value != "[not set]" {
			out[key] = textcut.Bytes(strings.ToValidUTF8(value, "\uFFFD"), maxField, "")
		}
	}
	return out
}

func (m *Machine) run(ctx context.Context, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8"}
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, failed(name, err, said.String())
	}
	return out, nil
}

func failed(name string, err error, said string) error {
	if errors.Is(err, exec.ErrNotFound) {
		return fault.New(fault.Precondition, "this machine has no %s, which comes with systemd", name).WithFix("look at the service by its process or its log").WithCause(err)
	}
	said, _, _ = strings.Cut(strings.TrimSpace(strings.ToValidUTF8(said, "\uFFFD")), "\n")
	return fault.New(fault.Precondition, "%s failed: %s", name, textcut.Bytes(said, maxField, "")).WithCause(err)
}

// Read returns entries of a unit, oldest first: the newest that fit.
func (m *Machine) Read(ctx context.Context, req *nodev1.ReadJournalRequest) (*nodev1.ReadJournalResponse, error) {
	if req.GetUnit() == "" {
		return m.readOwn(req)
	}
	if err := m.shown(req.GetUnit()); err != nil {
		return nil, err
	}
	args := []string{"--output=json", "--no-pager", "--quiet", "--all", "--reverse", "--unit=" + req.GetUnit()}
	if m.cfg.Dir != "" {
		args = append(args, "--directory="+m.cfg.Dir)
	}
	w := wanted{before: req.GetBefore(), since: req.GetSince(), until: req.GetUntil()}
	switch {
	case w.before == "":
		if w.since != nil {
			args = append(args, "--since="+moment(w.since))
		}
		if w.until != nil {
			args = append(args, "--until="+moment(w.until))
		}
	case !cursorText.MatchString(w.before):
		return nil, fault.New(fault.Invalid, "before: %q is not a cursor", w.before).WithCode(fault.InvalidParameters).WithFix("use that of an entry")
	default:
		// journalctl takes no period together with a cursor: collect looks at the times.
		args = append(args, "--cursor="+w.before)
	}
	if err := w.complete(req); err != nil {
		return nil, err
	}
	return m.read(ctx, args, w)
}

// complete takes the pattern and the number of entries from a request.
func (w *wanted) complete(req *nodev1.ReadJournalRequest) (err error) {
	if req.GetGrep() != "" {
		if w.pattern, err = regexp.Compile(req.GetGrep()); err != nil {
			return fault.New(fault.Invalid, "grep: %v", err).WithCode(fault.InvalidParameters).WithFix("write a regular expression of RE2")
		}
	}
	if w.most = min(int(req.GetLines()), maxLines); w.most == 0 {
		w.most = defaultLines
	}
	return nil
}

// wanted says which entries are returned.
type wanted struct {
	// before is a cursor; empty for none. since and until bound the times; nil for no bound.
	before       string
	since, until *timestamppb.Timestamp
	pattern      *regexp.Regexp // of the message; nil for all
	most         int
}

// moment writes a time as journalctl reads it, in seconds with a fraction.
func moment(t *timestamppb.Timestamp) string {
	return fmt.Sprintf("@%d.%06d", t.GetSeconds(), t.GetNanos()/1000)
}

func (m *Machine) read(ctx context.Context, args []string, w wanted) (*nodev1.ReadJournalResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "journalctl", args...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8"}
	var said bytes.Buffer
	cmd.Stderr = &limited{&said, maxField}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("run journalctl: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, failed("journalctl", err, "")
	}
	out, enough, rerr := m.collect(pipe, w)
	if enough || rerr != nil {
		cancel() // the rest is not needed
	}
	err = cmd.Wait()
	switch {
	case rerr != nil && ctx.Err() == nil:
		return nil, rerr
	case !enough && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fault.New(fault.Deadline, "the journal has too many entries to look through in %s", runTimeout).WithFix("give since, or a unit with fewer")
	case !enough && err != nil:
		return nil, failed("journalctl", err, said.String())
	}
	slices.Reverse(out.Entries)
	return out, nil
}

// collect reads entries, the newest first, until there are enough, or none that are older fit.
func (m *Machine) collect(in io.Reader, w wanted) (out *nodev1.ReadJournalResponse, enough bool, err error) {
	out = &nodev1.ReadJournalResponse{}
	lines := bufio.NewReaderSize(io.LimitReader(in, maxRead), 64<<10)
	size, seen, last := 0, 0, ""
	for {
		line, err := readLine(lines)
		if errors.Is(err, io.EOF) {
			if out.More = seen >= maxRead-maxEntry; out.GetMore() {
				out.NextCursor = last
			}
			return out, out.GetMore(), nil
		}
		if err != nil {
			return out, false, fmt.Errorf("read the journal: %w", err)
		}
		seen += len(line)
		e := m.entry(line)
		if e == nil {
			continue
		}
		at := e.GetTime().AsTime()
		if w.since != nil && at.Before(w.since.AsTime()) {
			return out, true, nil
		}
		fits := e.GetCursor() != w.before && (w.until == nil || !at.After(w.until.AsTime())) && (w.pattern == nil || w.pattern.MatchString(e.GetMessage()))
		if fits && (len(out.GetEntries()) == w.most || size+len(e.GetMessage()) > maxReturned) {
			out.More, out.NextCursor = true, last
			return out, true, nil
		}
		last = e.GetCursor()
		if !fits {
			continue
		}
		if len(e.GetMessage()) > maxMessage {
			e.Message, e.Cut = textcut.Bytes(e.GetMessage(), maxMessage, ""), true
		}
		size += len(e.GetMessage())
		out.Entries = append(out.Entries, e)
	}
}

// readLine returns a line; one that is too long is empty.
func readLine(in *bufio.Reader) ([]byte, error) {
	var out []byte
	for {
		piece, err := in.ReadSlice('\n')
		if len(out)+len(piece) <= maxEntry {
			out = append(out, piece...)
		} else {
			out = out[:0]
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			if errors.Is(err, io.EOF) && len(out) > 0 {
				err = nil
			}
			return out, err
		}
	}
}

// entry reads one entry; nil for a line that is none.
func (m *Machine) entry(line []byte) *nodev1.JournalEntry {
	var fields map[string]json.RawMessage
	if json.Unmarshal(line, &fields) != nil {
		return nil
	}
	e := &nodev1.JournalEntry{Cursor: journalfield.Text(fields["__CURSOR"]), Message: journalfield.Text(fields["MESSAGE"])}
	usec, err := strconv.ParseInt(journalfield.Text(fields["__REALTIME_TIMESTAMP"]), 10, 64)
	if err != nil || e.GetCursor() == "" {
		return nil
	}
	e.Time = timestamppb.New(time.UnixMicro(usec))
	for _, name := range m.cfg.Fields {
		if value := journalfield.Text(fields[name]); value != "" {
			if e.Fields == nil {
				e.Fields = map[string]string{}
			}
			e.Fields[name] = textcut.Bytes(value, maxField, "")
		}
	}
	return e
}

// limited keeps the beginning of what is written.
type limited struct {
	to   *bytes.Buffer
	most int
}

func (l *limited) Write(p []byte) (int, error) {
	if room := l.most - l.to.Len(); room > 0 {
		l.to.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}
