package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/sdk"
)

// notInConsole are the RPCs that people call and the console does not, and why. A
// service alone stands for all of its RPCs.
var notInConsole = map[string]string{
	"Workers": "of workers only: no person calls it",

	"Terminals.OpenTerminal":          "browsers cannot stream both ways: the console's terminals go over the WebSocket at /terminals",
	"Browsers.WatchBrowser":           "as terminals, over the WebSocket at /browsers",
	"NodeExecs.StartNodeExec":         "a person in the console opens a terminal, which records the same",
	"NodeExecs.GetNodeExec":           "ListNodeExecs has all that the console shows",
	"Sessions.CreateLoginCode":        "it makes the link of deckhand open, for somebody who is not logged in yet",
	"Patterns.MatchPatterns":          "it tries a goal on the command line; in the console a task shows what it was offered",
	"Patterns.PurgePatterns":          "it cannot be undone; with deckhand pattern purge",
	"Patterns.SetPatternSettings":     "an operator sets them once, with deckhand pattern settings",
	"Knowledge.GetKnowledgeEmbedding": "an administrator sets it once, with deckhand knowledge embed; a search says which passages it found by meaning",
	"Knowledge.SetKnowledgeEmbedding": "see Knowledge.GetKnowledgeEmbedding",
	"Credentials.GetCredential":       "ListCredentials has all that the console shows",
	"Destinations.GetDestination":     "ListDestinations has all that the console shows",
	"Destinations.GetNotification":    "ListNotifications has all that the console shows",
	"Files.CompareFiles":              "Workspaces.DiffChanges has the console's diffs",
	"Files.DescribeFiles":             "ListFiles has all that the console shows",
	"Files.UploadFiles":               "browsers cannot stream a request: WriteFile uploads a file",
	"Files.SendFiles":                 "between workspaces, for scripts: the command line",
	"Files.WatchFiles":                "the console reads a folder again when an event says that it changed",
	"Images.PrepareImage":             "a task prepares its image by itself",
	"Images.ImportImage":              "an archive of gigabytes is not for a browser: the command line",
	"Packs":                           "of whoever installs programs for jails on machines: the command line",
	"Diagnostics.Diagnose":            "of deckhand doctor, on the command line: it takes up to half a minute",
	"Tasks.CancelTasks":               "the console cancels the tasks that are selected; those that a filter picks: the command line",
	"Tasks.ReadTaskLog":               "the console shows the log of each step; that of a whole task is a download by REST",
	"Inbox.ReplyToTask":               "the console answers a question on its item: AnswerInboxItem",
	"Nodes.UpgradeNodes":              "whoever puts a release onto the hub's machine begins it there: the command line; a node's page shows how it went",
	"Nodes.ListNodeRollouts":          "see Nodes.UpgradeNodes",
	"Nodes.StopNodeRollout":           "see Nodes.UpgradeNodes",
	"Organisations":                   "of the hub's operator, on the hub's own machine, and of an organisation's administrators once: the command line",
	"Memories.GetMemory":              "ListMemories has all that the console shows",
	"Memories.RecallMemories":         "to try what a run would be told, on the command line; the console shows what each run knew",
	"Memories.ImportMemories":         "a file of an export with its digests: the command line",
	"Plans.SetCallRate":               "of the hub's operator, on the hub's own machine: the command line",
}

// Every RPC is reachable in the console, or it is written down why not.
func TestEveryRPCIsInTheConsoleOrSaysWhyNot(t *testing.T) {
	t.Parallel()
	var source strings.Builder
	require.NoError(t, filepath.WalkDir("../../ui/src", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "gen":
			return fs.SkipDir
		case strings.Contains(path, ".test."), !strings.HasSuffix(path, ".ts") && !strings.HasSuffix(path, ".tsx"):
			return nil
		}
		data, err := os.ReadFile(path)
		source.Write(data)
		return err
	}))
	calls := map[string]bool{}
	for _, m := range regexp.MustCompile(`\.([a-z]\w+)\b`).FindAllStringSubmatch(source.String(), -1) {
		calls[m[1]] = true
	}
	known, seen := map[string]bool{}, 0
	client := reflect.TypeFor[sdk.Client]()
	for i := range client.NumField() {
		service := client.Field(i)
		if !service.IsExported() || service.Type.Kind() != reflect.Interface {
			continue
		}
		known[service.Name] = true
		for j := range service.Type.NumMethod() {
			seen++
			method := service.Type.Method(j).Name
			rpc := service.Name + "." + method
			known[rpc] = true
			called := calls[strings.ToLower(method[:1])+method[1:]]
			if !called && notInConsole[rpc] == "" && notInConsole[service.Name] == "" {
				t.Errorf("the console does not call %s: call it, or say in notInConsole why not", rpc)
			}
			if called && notInConsole[rpc] != "" {
				t.Errorf("the console calls %s now: remove it from notInConsole", rpc)
			}
		}
	}
	require.Greater(t, seen, 100, "the services were not found")
	for rpc, why := range notInConsole {
		require.True(t, known[rpc], "%s does not exist any more", rpc)
		require.Greater(t, len(why), 15, rpc)
	}
}
