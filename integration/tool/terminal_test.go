package tool

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
)

// An agent works with a program that needs a terminal as a person would: it sees the screen,
// presses keys, and stops what hangs. Lines that it types are judged like commands, and
// those that nobody can judge are asked about.
func TestAnAgentUsesATerminal(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	f.Persona("terminal", `
turns:
  - text: I write the menu.
    calls:
      - tool: file_write
        arguments:
          path: menu
          content: |
            i=0
            until [ -n "$done" ]; do
              printf '\033[2J\033[HWhich one?\n'
              for n in 0 1 2; do [ $n = $i ] && printf '> item %d\n' $n || printf '  item %d\n' $n; done
              IFS= read -rsn1 key
              case $key in
              $'\033') read -rsn2 key; [ "$key" = '[B' ] && i=$(( (i + 1) % 3 )) ;;
              '') done=1 ;;
              esac
            done
            echo "took item $i" | tee taken
  - text: I open a shell and the menu.
    capture: {shell: '(job_\w+) has run', menu: '(?s)job_\w+ has run.*?(job_\w+) has run'}
    calls:
      - {tool: terminal_open, arguments: {command: "PS1='shell> ' bash --norc"}}
      - {tool: terminal_open, arguments: {command: "bash menu"}}
  - text: I use the shell.
    calls:
      - {tool: terminal_write, arguments: {job: "${shell}", text: "tty >/dev/null && echo on a te"}}
      - {tool: terminal_write, arguments: {job: "${shell}", text: "rminal", keys: [enter]}}
      - {tool: terminal_write, arguments: {job: "${shell}", text: "sleep 1000", keys: [enter]}}
      - {tool: terminal_write, arguments: {job: "${shell}", keys: [ctrl-c]}}
      - {tool: terminal_write, arguments: {job: "${shell}", text: "seq 1 60; sleep 1; echo re''ady", keys: [enter]}}
      - {tool: terminal_read, arguments: {job: "${shell}", wait_seconds: 20, until: "ready"}}
  - text: I read what has left the screen.
    calls:
      - {tool: terminal_read, arguments: {job: "${shell}", above: 30}}
      - {tool: job_input, arguments: {job: "${shell}", text: "ls"}}
  - text: I choose.
    calls:
      - {tool: terminal_write, arguments: {job: "${menu}", keys: [down, down]}}
      - {tool: terminal_write, arguments: {job: "${menu}", keys: [enter]}}
  - text: I close it.
    calls:
      - {tool: terminal_close, arguments: {job: "${shell}"}}
      - {tool: terminal_write, arguments: {job: "${shell}", text: "ls"}}
      - {tool: terminal_write, arguments: {job: "${menu}", text: "\x1b[A"}}
  - text: That is all.
    calls: [{tool: complete_task, arguments: {summary: "took one"}}]
`, "workspace: {scope: agent}")
	id := f.Submit("terminal")
	item := f.Item(id, "")
	shown := f.CLI(0, "inbox", "show", item).Out
	require.Contains(t, shown, "the script cannot be understood")
	require.Contains(t, shown, "typed into\n  bash menu\n\ntyped behind\n  [key][key]\n")
	f.CLI(0, "inbox", "approve", item)
	f.Ended(id)
	var steps []struct{ ID, State, Observation, ErrorCode string }
	f.JSON(&steps, "task", "steps", id)
	require.Len(t, steps, 17)
	says := func(n int, want string) { t.Helper(); require.Regexp(t, want, steps[n].Observation) }
	says(1, `^job_\w+ has run for \d+s\nshell>\n\[cursor in row 1, column 8\]$`)
	says(2, `\nWhich one\?\n> item 0\n  item 1\n  item 2\n\[cursor in row 5, column 1\]$`)
	says(3, `\nshell> tty >/dev/null && echo on a te\n\[cursor`)
	says(4, `\nshell> tty >/dev/null && echo on a terminal\non a terminal\nshell>\n`)
	says(5, `\nshell> sleep 1000\n\[`)
	says(6, `\nshell> sleep 1000\n\^C\nshell>\n`)
	says(8, `(?s)^job_\w+ has run for \d+s\n2\d\n.*\n60\nready\nshell>\n\[cursor in row 40, column 8\]$`)
	says(9, `(?s)\n1\n2\n.*\n60\nready\nshell>\n\[cursor in row 40,`)
	says(10, `^error AGENT_012: job_\w+ is a terminal: use terminal_write$`)
	says(11, `\nWhich one\?\n  item 0\n  item 1\n> item 2\n`)
	says(12, `^job_\w+ has ended: exit status 0\n(?s:.*)\ntook item 2\n\[cursor`)
	says(13, `^job_\w+ has ended: AGENT_027: killed by the agent$`)
	says(14, `^error AGENT_\d+: exec step_\w+ has ended`)
	says(15, `^error AGENT_012: .*text`)
}
