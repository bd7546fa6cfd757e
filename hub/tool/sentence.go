package tool

import (
	"fmt"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/toolname"
)

// Sentence says what a call would do, with a verb and its object, for a person who has not
// seen the tool's name before, or the name in words for a tool without a sentence: "Delete the file old.txt". where is where commands run, such as
// "the jail of coder on web-1". The text contains what an agent wrote, on one line.
func Sentence(name string, arguments map[string]any, where string) string {
	if say := sentences[name]; say != nil {
		return firstLine(say(func(key string) string { return object(arguments, key) }, where))
	}
	if IsMCP(name) {
		server, tool, _ := strings.Cut(strings.TrimPrefix(name, persona.MCPPrefix), "__")
		return fmt.Sprintf("Call the tool %s of the server %s", tool, server)
	}
	words := strings.ReplaceAll(name, "_", " ")
	return strings.ToUpper(words[:1]) + words[1:]
}

// object returns the first line of an argument, shortened for a sentence; numbers and lists of
// texts as text.
func object(arguments map[string]any, key string) string {
	var out string
	switch v := arguments[key].(type) {
	case string:
		out = v
	case float64:
		out = fmt.Sprint(v)
	case []any:
		var parts []string
		for _, one := range v {
			parts = append(parts, fmt.Sprint(one))
		}
		out = strings.Join(parts, ", ")
	}
	out = firstLine(out)
	if len(out) > maxTitle {
		out = strings.ToValidUTF8(out[:maxTitle], "") + "..."
	}
	return out
}

// A sayer makes the sentence of a tool's call from its arguments.
type sayer = func(arg func(string) string, where string) string

// about is a sayer of a verb and one argument.
func about(verb, key string) sayer {
	return func(arg func(string) string, _ string) string { return strings.TrimSpace(verb + " " + arg(key)) }
}

// there is a sayer of something that is done where commands run.
func there(what string) sayer {
	return func(_ func(string) string, where string) string { return what + " in " + where }
}

// plain is a sayer that names no argument.
func plain(what string) sayer { return func(func(string) string, string) string { return what } }

// either returns a text, or another one if it is empty.
func either(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

var sentences = map[string]sayer{
	toolname.ApplyPatch:        plain("Change files with a patch"),
	toolname.CallTool:          about("Call the tool", "tool"),
	toolname.Checkpoint:        about("Name a checkpoint", "name"),
	toolname.CheckpointRestore: about("Restore the workspace to the checkpoint", "name"),
	toolname.CompleteTask:      plain("End the task"),
	toolname.ContextSearch:     about("Search the task for", "query"),
	toolname.PatternMatch:      about("Find patterns of earlier runs for", "query"),
	toolname.CreateSubtask:     about("Start a subtask:", "goal"),
	toolname.CSVProfile:        about("Profile the table", "path"),
	toolname.Delegate: func(arg func(string) string, _ string) string {
		return fmt.Sprintf("Have the agent %s do: %s", arg("agent"), arg("goal"))
	},
	toolname.FileAppend: about("Add text to the end of", "path"),
	toolname.FileDelete: about("Delete", "path"),
	toolname.FileEdit:   about("Edit", "path"),
	toolname.FileList: func(arg func(string) string, _ string) string {
		return "List the files in " + either(arg("path"), "the workspace")
	},
	toolname.FileMove: func(arg func(string) string, _ string) string {
		return fmt.Sprintf("Move %s to %s", arg("from"), arg("to"))
	},
	toolname.FileOutline: about("Outline the file", "path"),
	toolname.FileRead:    about("Read the file", "path"),
	toolname.FileSearch:  about("Search files for", "pattern"),
	toolname.FileView:    about("Look at the file", "path"),
	toolname.FileWrite:   about("Write", "path"),
	toolname.GitPush: func(arg func(string) string, _ string) string {
		return fmt.Sprintf("Push the branch %s to %s", arg("ref"), either(arg("remote"), "origin"))
	},
	toolname.Glob:           about("Find the files", "pattern"),
	toolname.HandoffToAgent: about("Hand the task over to the agent", "target_agent"),
	toolname.HostExec:       plain("Run a command on the machine itself, outside of any jail"),
	toolname.HostRead:       about("Read on the machine itself", "path"),
	toolname.HostWrite:      about("Write on the machine itself", "path"),
	toolname.HTTPDelete:     sending("DELETE"),
	toolname.HTTPDownload: func(arg func(string) string, _ string) string {
		return fmt.Sprintf("Download from %s into %s", host(arg("url")), arg("path"))
	},
	toolname.HTTPGet:          sending("GET"),
	toolname.HTTPPost:         sending("POST"),
	toolname.HTTPPut:          sending("PUT"),
	toolname.JobInput:         about("Type into the background command", "job"),
	toolname.JobKill:          about("End the background command", "job"),
	toolname.JobList:          plain("List the background commands"),
	toolname.JobOutput:        about("Read the output of the background command", "job"),
	toolname.JournalRead:      about("Read the journal of", "unit"),
	toolname.JSONQuery:        about("Query the JSON file", "path"),
	toolname.LogDigest:        about("Summarize the log", "path"),
	toolname.ManageScratchpad: plain("Read or write the agent's notes"),
	toolname.MemoryForget:     about("Forget the memory", "key"),
	toolname.MemoryRetrieve:   about("Look up in the memory:", "query"),
	toolname.MemoryStore: func(arg func(string) string, _ string) string {
		return fmt.Sprintf("Remember for the %s: %s", either(arg("scope"), ownScope), arg("key"))
	},
	toolname.NodeExecMany: func(arg func(string) string, _ string) string {
		return "Run a command on the machines of " + either(arg("nodes"), "several nodes")
	},
	toolname.NodeList: plain("List the nodes"),
	toolname.NodeLock: func(arg func(string) string, _ string) string {
		return fmt.Sprintf("Lock the node %s for %s minutes, to work on the machine itself", arg("node"), arg("minutes"))
	},
	toolname.NodeUnlock: plain("Release the lock of the node"),
	toolname.PinFact:    about("Remember a fact:", "key"),
	toolname.PullRequestComment: func(arg func(string) string, _ string) string {
		return fmt.Sprintf("Comment on pull request #%s of %s", arg("number"), arg("repository"))
	},
	toolname.PullRequestOpen: func(arg func(string) string, _ string) string {
		return fmt.Sprintf("Open a pull request of %s: %s into %s", arg("repository"), arg("head"), arg("base"))
	},
	toolname.RequestInput: plain("Answer a question of the agent"),
	toolname.RAGIndex: func(arg func(string) string, _ string) string {
		return fmt.Sprintf("Add %s to the collection %s", arg("path"), either(arg("collection"), "of the agent"))
	},
	toolname.RAGQuery:      about("Search the documents for", "query"),
	toolname.SemanticGrep:  about("Search files for", "query"),
	toolname.ServiceStatus: about("Look at the service", "unit"),
	toolname.ShellExec:     there("Run a command"),
	toolname.TailStats:     about("Look at the end of the log", "path"),
	toolname.TerminalClose: about("Close the terminal", "job"),
	toolname.TerminalOpen:  there("Open a terminal"),
	toolname.TerminalRead:  about("Read the terminal", "job"),
	toolname.TerminalWrite: about("Type into the terminal", "job"),
	toolname.ToolSearch:    about("Search for a tool:", "query"),
	toolname.TreeDigest: func(arg func(string) string, _ string) string {
		return "Summarize the folder " + either(arg("path"), "of the workspace")
	},
	toolname.UpdatePlan: plain("Set the agent's plan"),
	toolname.Wait:       func(arg func(string) string, _ string) string { return "Wait for " + arg("seconds") + " s" },
	toolname.WebSearch:  about("Search the web for", "query"),
	toolname.WorkspaceSync: func(arg func(string) string, _ string) string {
		if arg("direction") == "to" {
			return fmt.Sprintf("Copy %s to the node %s", arg("paths"), arg("node"))
		}
		return fmt.Sprintf("Copy %s from the node %s", arg("paths"), arg("node"))
	},
}

func sending(method string) sayer {
	return func(arg func(string) string, _ string) string {
		return fmt.Sprintf("Send %s to %s", method, host(arg("url")))
	}
}

// host returns the host and port of a URL, or the whole of a text that has none.
func host(text string) string {
	_, rest, ok := strings.Cut(text, "://")
	if !ok {
		return text
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = rest[at+1:]
	}
	return rest
}
