package output

import "strings"

// SpreadsheetText returns the text of a cell in comma-separated values such that a
// spreadsheet does not take it for a formula: names come from people and agents. The
// console's downloads use cell in ui/src/features/history/csv.ts, which does the same.
func SpreadsheetText(text string) string {
	if strings.HasPrefix(text, "\t") || strings.HasPrefix(text, "\r") {
		return "'" + text
	}
	if begins := strings.TrimSpace(text); begins != "" && strings.ContainsRune("=+-@", rune(begins[0])) {
		return "'" + text
	}
	return text
}
