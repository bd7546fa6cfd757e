package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/internal/version"
)

func TestTheTypeScriptClientHasTheServicesOfPeople(t *testing.T) {
	t.Parallel()
	client, err := os.ReadFile("../../sdk/ts/src/client.ts")
	require.NoError(t, err)
	for _, service := range auth.Services() {
		if service == "TerminalService" || service == "BrowserService" {
			continue // fetch cannot stream both ways: terminals and browsers are WebSockets
		}
		require.Contains(t, string(client), "service("+service+", transport)")
	}
}

// The SDK is built with the console's modules, and its package asks for those versions or
// later ones. Its own version is the hub's.
func TestTheTypeScriptPackageHasTheVersionsThatItIsTestedWith(t *testing.T) {
	t.Parallel()
	type manifest struct {
		Version                       string
		Dependencies, DevDependencies map[string]string
	}
	read := func(path string) (m manifest) {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &m))
		return m
	}
	console, sdk := read("../../ui/package.json"), read("../../sdk/ts/package.json")
	require.Equal(t, version.Version, sdk.Version)
	require.NotEmpty(t, sdk.Dependencies)
	for name, want := range sdk.Dependencies {
		require.Equal(t, "^"+console.Dependencies[name], want, name)
	}
}

func TestCallsAreRepeatedAsTheyAreOrWithAKeyOrNotAtAll(t *testing.T) {
	t.Parallel()
	repeatable, keyed := retried()
	for _, p := range []string{"TaskService/GetTask", "InboxService/ListInbox", "FileService/WriteFile", "SessionService/GetLoginMethods", "NodeExecService/IndexNodeLog"} {
		require.Contains(t, repeatable, p)
	}
	for _, p := range []string{"TaskService/SubmitTask", "TokenService/CreateToken", "InboxService/AnswerInboxItem", "NodeExecService/StartNodeExec"} {
		require.Contains(t, keyed, p)
	}
	for _, p := range slices.Concat(repeatable, keyed) {
		require.False(t, strings.HasPrefix(p, "WorkerService/"), p)
		require.NotContains(t, []string{"SessionService/CreateSession", "TaskService/ReadLog", "SessionService/BeginPasskeyLogin"}, p)
		require.False(t, slices.Contains(repeatable, p) && slices.Contains(keyed, p), p)
	}
}
