// Package asciicast writes terminal recordings in asciinema's format asciicast
// v3 (https://docs.asciinema.org/manual/asciicast/v3): a line of JSON with the
// terminal's size, then one line [interval, code, data] per event, with the
// interval in seconds since the previous event.
package asciicast

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// The size of a recording that does not say its own.
const (
	defaultCols = 80
	defaultRows = 24
)

// Header is what is known of a recording before its events.
type Header struct {
	// Begin is when it began.
	Begin time.Time
	Title string
	// IdleLimit is the longest pause that a player shows; 0 for any.
	IdleLimit time.Duration
}

// Writer writes one recording. The header is written with the first event, so
// that a size that comes first is the header's.
type Writer struct {
	out    io.Writer
	header Header
	last   time.Time
	cols   uint32
	rows   uint32
	begun  bool
	// held is an incomplete character at the end of the output, which the next
	// output completes: events are text.
	held []byte
}

// NewWriter creates a Writer.
func NewWriter(out io.Writer, header Header) *Writer {
	return &Writer{out: out, header: header, last: header.Begin, cols: defaultCols, rows: defaultRows}
}

// Output is what the terminal showed.
func (w *Writer) Output(at time.Time, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	data = append(w.held, data...)
	whole := len(data) - incomplete(data)
	w.held = bytes.Clone(data[whole:])
	if whole == 0 {
		return nil
	}
	return w.event(at, "o", string(bytes.ToValidUTF8(data[:whole], []byte("\uFFFD"))))
}

// incomplete returns how many bytes at the end begin a character.
func incomplete(data []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(data); n++ {
		if b := data[len(data)-n:]; utf8.RuneStart(b[0]) {
			if utf8.FullRune(b) {
				return 0
			}
			return n
		}
	}
	return 0
}

// Resize is a change of the terminal's size.
func (w *Writer) Resize(at time.Time, cols, rows uint32) error {
	if !w.begun {
		w.cols, w.rows = cols, rows
		return nil
	}
	return w.event(at, "r", fmt.Sprintf("%dx%d", cols, rows))
}

// Mark names a place, for players to go to.
func (w *Writer) Mark(at time.Time, label string) error {
	return w.event(at, "m", strings.ToValidUTF8(label, "\uFFFD"))
}

// Exit is the end of what ran, with its exit status. It ends the recording.
func (w *Writer) Exit(at time.Time, status int) error {
	if err := w.Close(); err != nil {
		return err
	}
	return w.event(at, "x", fmt.Sprint(status))
}

// Close ends the recording. It does not close what is written to.
func (w *Writer) Close() error {
	if len(w.held) > 0 {
		w.held = nil
		return w.event(w.last, "o", "\uFFFD")
	}
	return w.begin()
}

func (w *Writer) begin() error {
	if w.begun {
		return nil
	}
	w.begun = true
	type term struct {
		Cols uint32 `json:"cols"`
		Rows uint32 `json:"rows"`
	}
	return w.line(struct {
		Version   int     `json:"version"`
		Term      term    `json:"term"`
		Timestamp int64   `json:"timestamp,omitempty"`
		Title     string  `json:"title,omitempty"`
		IdleLimit float64 `json:"idle_time_limit,omitempty"`
	}{3, term{w.cols, w.rows}, w.header.Begin.Unix(), w.header.Title, w.header.IdleLimit.Seconds()})
}

func (w *Writer) event(at time.Time, code, data string) error {
	if err := w.begin(); err != nil {
		return err
	}
	// A clock that jumped back gives no negative interval.
	interval := max(at.Sub(w.last).Seconds(), 0)
	if at.After(w.last) {
		w.last = at
	}
	const precision = 1e6 // microseconds
	return w.line([]any{math.Round(interval*precision) / precision, code, data})
}

func (w *Writer) line(v any) error {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("encode recording: %w", err)
	}
	_, err := w.out.Write(buf.Bytes())
	return err
}
