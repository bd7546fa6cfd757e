// Package screen shows the output of a program on a terminal as a person would see it: as
// lines of text, after all that the program has written, moved, erased and scrolled.
package screen

import (
	"fmt"
	"io"
	"strings"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
)

// Screen is a terminal's screen. It may be used by one goroutine at a time.
type Screen struct {
	emulator *vt.Emulator
	// broken is why the output could not be read.
	broken error
	// applicationKeys: the program has asked for other codes of the arrow keys.
	applicationKeys bool
}

// maxAbove is how many of the lines that scroll off the top are kept.
const maxAbove = 1000

// New returns an empty screen.
func New(rows, columns int) *Screen {
	s := &Screen{emulator: vt.NewEmulator(columns, rows)}
	s.emulator.SetScrollbackSize(maxAbove)
	s.emulator.SetCallbacks(vt.Callbacks{
		EnableMode:  func(m ansi.Mode) { s.applicationKeys = s.applicationKeys || m == ansi.ModeCursorKeys },
		DisableMode: func(m ansi.Mode) { s.applicationKeys = s.applicationKeys && m != ansi.ModeCursorKeys },
	})
	// Nobody is there for what the emulator answers to a program that asks the terminal
	// for something: without this, a question would block Write.
	if answers, ok := s.emulator.InputPipe().(io.Closer); ok {
		_ = answers.Close() // never fails
	}
	return s
}

// Write adds output of the program. It never fails: see Text.
func (s *Screen) Write(output []byte) {
	if s.broken != nil {
		return
	}
	defer func() {
		// The output is whatever a program writes, and must not end this process.
		if r := recover(); r != nil {
			s.broken = fmt.Errorf("the output cannot be shown as a screen: %v", r)
		}
	}()
	_, _ = s.emulator.Write(output) // fails only if it is closed
}

// ApplicationKeys reports whether the program has asked for the application codes of the
// arrow keys (DECCKM).
func (s *Screen) ApplicationKeys() bool { return s.applicationKeys }

// Text returns the last lines that scrolled off the top, up to above of them and no more than
// 1000, then those on the screen, without spaces at the end of a line and empty lines at
// the end; and the row and the column of the cursor on the screen, from 1.
func (s *Screen) Text(above int) (text string, row, column int, err error) {
	if s.broken != nil {
		return "", 0, 0, s.broken
	}
	var lines []string
	gone := s.emulator.ScrollbackLen()
	for y := max(0, gone-above); y < gone; y++ {
		lines = append(lines, lineOf(s.emulator.Width(), func(x int) *uv.Cell { return s.emulator.ScrollbackCellAt(x, y) }))
	}
	for y := range s.emulator.Height() {
		lines = append(lines, lineOf(s.emulator.Width(), func(x int) *uv.Cell { return s.emulator.CellAt(x, y) }))
	}
	at := s.emulator.CursorPosition()
	return strings.TrimRight(strings.Join(lines, "\n"), "\n"), at.Y + 1, at.X + 1, nil
}

func lineOf(width int, cell func(x int) *uv.Cell) string {
	var line strings.Builder
	for x := 0; x < width; {
		c := cell(x)
		if c == nil || c.Width == 0 {
			x++
			if c == nil {
				line.WriteByte(' ')
			}
			continue
		}
		line.WriteString(c.Content)
		x += c.Width
	}
	return strings.TrimRight(line.String(), " ")
}
