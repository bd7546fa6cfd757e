// Package toolname contains the names of the tools that agents call, for
// packages that must not import the hub's tool registry. Package hub/tool
// describes each tool; a test there verifies that both contain the same names.
package toolname

// The names of the tools, in order.
const (
	CallTool         = "call_tool"
	CompleteTask     = "complete_task"
	ContextSearch    = "context_search"
	CreateSubtask    = "create_subtask"
	CSVProfile       = "csv_profile"
	Delegate         = "delegate"
	FileAppend       = "file_append"
	FileDelete       = "file_delete"
	FileEdit         = "file_edit"
	FileList         = "file_list"
	FileMove         = "file_move"
	FileOutline      = "file_outline"
	FileRead         = "file_read"
	FileSearch       = "file_search"
	FileWrite        = "file_write"
	HandoffToAgent   = "handoff_to_agent"
	HTTPDelete       = "http_delete"
	HTTPDownload     = "http_download"
	HTTPGet          = "http_get"
	HTTPPost         = "http_post"
	HTTPPut          = "http_put"
	JSONQuery        = "json_query"
	LogDigest        = "log_digest"
	ManageScratchpad = "manage_scratchpad"
	PinFact          = "pin_fact"
	RequestInput     = "request_input"
	SemanticGrep     = "semantic_grep"
	ShellExec        = "shell_exec"
	TailStats        = "tail_stats"
	ToolSearch       = "tool_search"
	TreeDigest       = "tree_digest"
	UpdatePlan       = "update_plan"
	WebSearch        = "web_search"
	WorkspaceSync    = "workspace_sync"
)
