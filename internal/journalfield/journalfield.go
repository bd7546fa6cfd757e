// Package journalfield reads fields of journal entries as journalctl writes them in JSON.
package journalfield

import (
	"encoding/json"
	"strings"
)

// Text reads a field: a text, or a list of bytes where it is no UTF-8; of several values with
// the same name, the first.
func Text(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var numbers []int
	if json.Unmarshal(raw, &numbers) == nil {
		data := make([]byte, len(numbers))
		for i, n := range numbers {
			data[i] = byte(n) //nolint:gosec // journalctl writes bytes
		}
		return strings.ToValidUTF8(string(data), "\uFFFD")
	}
	var several []json.RawMessage
	if json.Unmarshal(raw, &several) == nil && len(several) > 0 {
		return Text(several[0])
	}
	return ""
}
