package task

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The console's download of statistics has the same columns, in the same order.
func TestTheConsoleWritesTheSameColumns(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../../../../ui/src/features/history/csv.ts")
	require.NoError(t, err)
	_, list, found := strings.Cut(string(source), "const header = [")
	require.True(t, found)
	list, _, found = strings.Cut(list, "];")
	require.True(t, found)
	var columns []string
	for _, m := range regexp.MustCompile(`"([a-z0-9_]+)"`).FindAllStringSubmatch(list, -1) {
		columns = append(columns, m[1])
	}
	require.Equal(t, csvColumns, columns)
}
