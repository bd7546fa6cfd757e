package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/internal/asciicast"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// exportVersion is raised when a line comes to mean something else.
const exportVersion = 1

// jsonLines writes a task as JSON Lines: docs/history.md describes them.
type jsonLines struct {
	out    io.Writer
	taskID string
	counts exportCounts
}

type exportCounts struct {
	Events   int64 `json:"events"`
	Steps    int64 `json:"steps"`
	LogBytes int64 `json:"logBytes"`
	Missing  int64 `json:"missing"`
}

// exportLine is one line. What goes with its kind is set.
type exportLine struct {
	Kind       string          `json:"kind"`
	Version    int             `json:"version,omitempty"`
	TaskID     string          `json:"taskId,omitempty"`
	ExportedAt string          `json:"exportedAt,omitempty"`
	Task       json.RawMessage `json:"task,omitempty"`
	Event      json.RawMessage `json:"event,omitempty"`
	Step       json.RawMessage `json:"step,omitempty"`
	Log        *exportPieceOf  `json:"log,omitempty"`
	End        *exportCounts   `json:"end,omitempty"`
}

// exportPieceOf is a piece of a log: output as text, or as base64 if it is not UTF-8; a
// gap; a new size of the terminal; or why there is no log.
type exportPieceOf struct {
	ExecID  string `json:"execId"`
	Stream  string `json:"stream,omitempty"`
	Offset  int64  `json:"offset"`
	Time    string `json:"time,omitempty"`
	Text    string `json:"text,omitempty"`
	Base64  string `json:"base64,omitempty"`
	GapTo   int64  `json:"gapTo,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Columns uint32 `json:"columns,omitempty"`
	Rows    uint32 `json:"rows,omitempty"`
}

func (w *jsonLines) line(l exportLine) error {
	e := json.NewEncoder(w.out)
	e.SetEscapeHTML(false)
	if err := e.Encode(l); err != nil {
		return fmt.Errorf("write a line of %s: %w", w.taskID, err)
	}
	return nil
}

// plain returns a message as JSON without the spaces that protojson varies.
func plain(m proto.Message) (json.RawMessage, error) {
	data, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = json.Compact(&out, data)
	return out.Bytes(), err
}

func (w *jsonLines) begin(t *deckhandv1.Task, at time.Time) error {
	w.taskID = t.GetId()
	if err := w.line(exportLine{Kind: "export", Version: exportVersion, TaskID: w.taskID, ExportedAt: at.UTC().Format(time.RFC3339Nano)}); err != nil {
		return err
	}
	data, err := plain(t)
	if err != nil {
		return err
	}
	return w.line(exportLine{Kind: "task", Task: data})
}

func (w *jsonLines) event(e *deckhandv1.Event) error {
	data, err := plain(e)
	if err != nil {
		return err
	}
	w.counts.Events++
	return w.line(exportLine{Kind: "event", Event: data})
}

func (w *jsonLines) step(s *deckhandv1.Step) error {
	data, err := plain(s)
	if err != nil {
		return err
	}
	w.counts.Steps++
	return w.line(exportLine{Kind: "step", Step: data})
}

func (w *jsonLines) log(execID string, p *nodev1.ReadLogResponse) error {
	m := &exportPieceOf{ExecID: execID, Offset: p.GetOffset()}
	if p.GetTime() != nil {
		m.Time = p.GetTime().AsTime().Format(time.RFC3339Nano)
	}
	data, gap, size := p.GetData(), p.GetGap(), p.GetResize()
	switch {
	case gap != nil:
		m.GapTo, m.Reason = gap.GetTo(), strings.ToLower(strings.TrimPrefix(gap.GetReason().String(), "GAP_REASON_"))
	case size != nil:
		m.Columns, m.Rows = size.GetCols(), size.GetRows()
	case len(data) == 0:
		return nil
	default:
		m.Stream = streamName(p.GetStream())
		w.counts.LogBytes += int64(len(data))
		if utf8.Valid(data) {
			m.Text = string(data)
		} else {
			m.Base64 = base64.StdEncoding.EncodeToString(data)
		}
	}
	return w.line(exportLine{Kind: "log", Log: m})
}

func (w *jsonLines) missing(execID string, why error) error {
	w.counts.Missing++
	return w.line(exportLine{Kind: "missing", Log: &exportPieceOf{ExecID: execID, Reason: why.Error()}})
}

func (w *jsonLines) end() error { return w.line(exportLine{Kind: "end", End: &w.counts}) }

// idleLimit is the longest pause of a recording of many commands: what is between
// them is the model's time.
const idleLimit = 2 * time.Second

// castOf writes the output of a task's commands as one recording: each command is
// preceded by a prompt that shows it, and by a mark.
type castOf struct {
	out  io.Writer
	cast *asciicast.Writer

	doing *deckhandv1.Step
	shown bool // what doing is
	last  byte // of what was shown
	at    time.Time
}

func (w *castOf) begin(t *deckhandv1.Task, at time.Time) error {
	if t.GetStartedAt() != nil {
		at = t.GetStartedAt().AsTime()
	}
	w.cast = asciicast.NewWriter(w.out, asciicast.Header{
		Begin: at, Title: fmt.Sprintf("%s by %s", t.GetId(), t.GetAgentName()), IdleLimit: idleLimit,
	})
	w.last, w.at = '\n', at
	return nil
}

func (w *castOf) event(*deckhandv1.Event) error { return nil }

func (w *castOf) step(s *deckhandv1.Step) error {
	w.doing, w.shown = s, false
	return nil
}

// prompt shows the command whose output follows.
func (w *castOf) prompt(at time.Time) error {
	if w.shown {
		return nil
	}
	w.shown = true
	command := w.doing.GetArguments().GetFields()["command"].GetStringValue()
	if command == "" {
		command = w.doing.GetTool()
	}
	// It is an agent's text: it shows, and does nothing.
	command = strings.Map(func(r rune) rune {
		if r != '\n' && unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, command)
	if err := w.cast.Mark(at, fmt.Sprintf("step %d: %s", w.doing.GetNumber(), w.doing.GetTool())); err != nil {
		return err
	}
	fresh := ""
	if w.last != '\n' {
		fresh = "\r\n"
	}
	w.last = '\n'
	return w.cast.Output(at, []byte("\x1b[0m"+fresh+"$ "+strings.ReplaceAll(command, "\n", "\r\n> ")+"\r\n"))
}

func (w *castOf) log(_ string, p *nodev1.ReadLogResponse) error {
	at := w.at
	if p.GetTime() != nil {
		at = p.GetTime().AsTime()
	}
	w.at = at
	if size := p.GetResize(); size != nil {
		return w.cast.Resize(at, size.GetCols(), size.GetRows())
	}
	data := p.GetData()
	if gap := p.GetGap(); gap != nil {
		data = fmt.Appendf(nil, "[%d bytes are missing]\n", gap.GetTo()-gap.GetFrom())
	}
	if len(data) == 0 {
		return nil
	}
	if err := w.prompt(at); err != nil {
		return err
	}
	if p.GetStream() != nodev1.LogStream_LOG_STREAM_PTY {
		data = w.asOnTerminal(data)
	}
	w.last = data[len(data)-1]
	return w.cast.Output(at, data)
}

// asOnTerminal ends lines of a pipe as a terminal does.
func (w *castOf) asOnTerminal(data []byte) []byte {
	out := make([]byte, 0, len(data)+len(data)/16)
	before := w.last
	for _, b := range data {
		if b == '\n' && before != '\r' {
			out = append(out, '\r')
		}
		out, before = append(out, b), b
	}
	return out
}

func (w *castOf) missing(execID string, why error) error {
	if err := w.prompt(w.at); err != nil {
		return err
	}
	return w.cast.Output(w.at, fmt.Appendf(nil, "[what %s wrote cannot be read: %s]\r\n", execID, why))
}

func (w *castOf) end() error { return w.cast.Close() }
