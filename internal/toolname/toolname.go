// Package toolname contains the names of the tools that agents call, for
// packages that must not import the hub's tool registry. Package hub/tool
// describes each tool; a test there verifies that both contain the same names.
package toolname

import "strings"

// The names of the tools, in order.
const (
	ApplyPatch         = "apply_patch"
	BrowserClick       = "browser_click"
	BrowserConsole     = "browser_console"
	BrowserDialog      = "browser_dialog"
	BrowserExecuteJS   = "browser_execute_js"
	BrowserExtract     = "browser_extract"
	BrowserHover       = "browser_hover"
	BrowserNavigate    = "browser_navigate"
	BrowserNetwork     = "browser_network"
	BrowserPress       = "browser_press"
	BrowserScreenshot  = "browser_screenshot"
	BrowserScroll      = "browser_scroll"
	BrowserSelect      = "browser_select"
	BrowserSnapshot    = "browser_snapshot"
	BrowserTabs        = "browser_tabs"
	BrowserType        = "browser_type"
	BrowserUpload      = "browser_upload"
	BrowserWait        = "browser_wait"
	CallTool           = "call_tool"
	Checkpoint         = "checkpoint"
	CheckpointRestore  = "checkpoint_restore"
	CompleteTask       = "complete_task"
	ContextSearch      = "context_search"
	CreateSubtask      = "create_subtask"
	CSVProfile         = "csv_profile"
	Delegate           = "delegate"
	FileAppend         = "file_append"
	FileDelete         = "file_delete"
	FileEdit           = "file_edit"
	FileList           = "file_list"
	FileMove           = "file_move"
	FileOutline        = "file_outline"
	FileRead           = "file_read"
	FileSearch         = "file_search"
	FileView           = "file_view"
	FileWrite          = "file_write"
	GitPush            = "git_push"
	Glob               = "glob"
	HandoffToAgent     = "handoff_to_agent"
	HostExec           = "host_exec"
	HostRead           = "host_read"
	HostWrite          = "host_write"
	HTTPDelete         = "http_delete"
	HTTPDownload       = "http_download"
	HTTPGet            = "http_get"
	HTTPPost           = "http_post"
	HTTPPut            = "http_put"
	JobInput           = "job_input"
	JobKill            = "job_kill"
	JobList            = "job_list"
	JobOutput          = "job_output"
	JournalRead        = "journal_read"
	JSONQuery          = "json_query"
	LogDigest          = "log_digest"
	ManageScratchpad   = "manage_scratchpad"
	NodeExecMany       = "node_exec_many"
	NodeList           = "node_list"
	NodeLock           = "node_lock"
	NodeUnlock         = "node_unlock"
	PinFact            = "pin_fact"
	PullRequestComment = "pull_request_comment"
	PullRequestOpen    = "pull_request_open"
	RequestInput       = "request_input"
	SemanticGrep       = "semantic_grep"
	SendEmail          = "send_email"
	SendNotification   = "send_notification"
	ServiceStatus      = "service_status"
	ShellExec          = "shell_exec"
	TailStats          = "tail_stats"
	TerminalClose      = "terminal_close"
	TerminalOpen       = "terminal_open"
	TerminalRead       = "terminal_read"
	TerminalWrite      = "terminal_write"
	ToolSearch         = "tool_search"
	TreeDigest         = "tree_digest"
	UpdatePlan         = "update_plan"
	Wait               = "wait"
	WebSearch          = "web_search"
	WebhookTrigger     = "webhook_trigger"
	WorkspaceSync      = "workspace_sync"
)

// ActsOnPage reports whether a tool acts on a web page as a person would: its calls may buy,
// send or delete, whatever the tool's category.
func ActsOnPage(name string) bool {
	switch name {
	case BrowserClick, BrowserDialog, BrowserExecuteJS, BrowserPress, BrowserSelect, BrowserType, BrowserUpload:
		return true
	}
	return false
}

// IsBrowser reports whether a tool is one of the browser.
func IsBrowser(name string) bool { return strings.HasPrefix(name, "browser_") }
