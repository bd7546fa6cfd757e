package output

import (
	"strings"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
	"github.com/charmbracelet/x/ansi"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
)

var (
	headerStyle = lipgloss.NewStyle().Bold(true)
	labelStyle  = lipgloss.NewStyle().Foreground(lipgloss.BrightBlack)
)

// gap is what stands between two columns.
const gap = 2

// grid returns things as a table without lines, as most tools print it, so
// that it can be cut and grepped.
func grid[T proto.Message](noun Noun[T], items []T, wide bool) string {
	columns := shown(noun, wide)
	headers := make([]string, len(columns))
	for i, c := range columns {
		headers[i] = strings.ToUpper(c.Header)
	}
	t := table.New().Headers(headers...).Wrap(false).
		Border(lipgloss.HiddenBorder()).BorderTop(false).BorderBottom(false).BorderLeft(false).
		BorderRight(false).BorderHeader(false).BorderColumn(false).BorderRow(false).
		StyleFunc(func(row, col int) lipgloss.Style {
			style := lipgloss.NewStyle()
			switch {
			case row == table.HeaderRow:
				style = headerStyle
			case columns[col].Style != nil:
				style = columns[col].Style(items[row])
			}
			if col < len(columns)-1 {
				style = style.PaddingRight(gap)
			}
			return style
		})
	for _, item := range items {
		t.Row(cells(columns, item, wide)...)
	}
	var out strings.Builder
	for line := range strings.Lines(t.Render() + "\n") {
		out.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return out.String()
}

// row returns one thing as a line without a header.
func row[T proto.Message](noun Noun[T], item T, wide bool) string {
	return strings.Join(cells(shown(noun, wide), item, wide), strings.Repeat(" ", gap)) + "\n"
}

func shown[T proto.Message](noun Noun[T], wide bool) []Column[T] {
	var out []Column[T]
	for _, c := range noun.Columns {
		if !c.Alone && !c.Block && (wide || !c.Wide) {
			out = append(out, c)
		}
	}
	return out
}

func cells[T proto.Message](columns []Column[T], item T, wide bool) []string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = cell(c, item)
		if c.Max > 0 && !wide {
			out[i] = ansi.Truncate(out[i], c.Max, "…")
		}
	}
	return out
}

func cell[T proto.Message](c Column[T], item T) string {
	if text := termsafe.Line(c.Value(item)); text != "" {
		return text
	}
	return "-"
}

// sheet returns one thing field by field, leaving out empty fields, then its
// blocks of text.
func sheet[T proto.Message](noun Noun[T], item T) string {
	width := 0
	for _, c := range noun.Columns {
		if !c.Block {
			width = max(width, len(c.Header)+gap)
		}
	}
	var fields, blocks strings.Builder
	for _, c := range noun.Columns {
		if c.Block {
			if text := strings.TrimRight(termsafe.Text(c.Value(item)), "\n"); text != "" {
				blocks.WriteString("\n" + labelStyle.Render(c.Header) + "\n" + text + "\n")
			}
			continue
		}
		text := termsafe.Line(c.Value(item))
		if text == "" {
			continue
		}
		if c.Style != nil {
			text = c.Style(item).Render(text)
		}
		fields.WriteString(labelStyle.Render(c.Header) + strings.Repeat(" ", width-len(c.Header)) + text + "\n")
	}
	return fields.String() + blocks.String()
}
