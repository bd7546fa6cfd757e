package tool

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatNeedsNoShell(t *testing.T) {
	t.Parallel()
	for command, argv := range map[string][]string{
		"tool":                         {"tool"},
		"tool  --flag=x a.txt":         {"tool", "--flag=x", "a.txt"},
		`tool 'a b' "c d" e'f'"g" ''`:  {"tool", "a b", "c d", "efg", ""},
		"tool # with a remark":         {"tool"},
		"":                             nil,
		"tool | other":                 nil,
		"tool > file":                  nil,
		"tool; other":                  nil,
		"tool && other":                nil,
		"tool &":                       nil,
		"! tool":                       nil,
		"A=1 tool":                     nil,
		"A=1":                          nil,
		"tool $HOME":                   nil,
		`tool "$HOME"`:                 nil,
		"tool $(other)":                nil,
		"tool `other`":                 nil,
		"tool *.go":                    nil,
		"tool ~/x":                     nil,
		"tool {a,b}":                   nil,
		`tool a\ b`:                    nil,
		`tool "a\"b"`:                  nil,
		`tool $'a\n'`:                  nil,
		"tool <(other)":                nil,
		"if true; then tool; fi":       nil,
		"tool 'unfinished":             nil,
		"time tool":                    nil,
		"tool '$HOME' \"*\" 'a\nb' x;": {"tool", "$HOME", "*", "a\nb", "x"},
	} {
		require.Equal(t, argv, plainArgv(command), command)
	}
}
