package main

import (
	"fmt"
	"net/http"
)

var (
	problem = object{
		"type": "object", "description": "An error (RFC 9457).",
		"required": []string{"type", "title", "status", "code"},
		"properties": object{
			"type":       object{"type": "string", "description": "A URN of the code."},
			"title":      object{"type": "string", "description": "The HTTP status in words."},
			"status":     object{"type": "integer", "description": "The HTTP status."},
			"detail":     object{"type": "string", "description": "What happened."},
			"code":       object{"type": "string", "description": "A stable code such as AGENT_010, or that of the RPC, such as not_found."},
			"fix":        object{"type": "string", "description": "What to do."},
			"object_id":  object{"type": "string", "description": "The object at fault."},
			"request_id": object{"type": "string", "description": "The id of the request in the hub's log."},
			"errors":     object{"type": "array", "description": "The fields that are not valid.", "items": ref("FieldError")},
		},
		"example": object{
			"type": "urn:deckhand:error:not_found", "title": "Not Found", "status": 404, "code": "not_found",
			"detail": `there is no task "task_3q9"`, "request_id": "corr_01k0",
		},
	}
	fieldError = object{
		"type": "object", "required": []string{"field", "message"},
		"properties": object{
			"field":   object{"type": "string", "description": "The path of the field."},
			"message": object{"type": "string", "description": "What is wrong with it."},
		},
	}
)

// failures are the errors, and what they mean.
var failures = map[int]string{
	http.StatusBadRequest:            "The request is not valid. `errors` names the fields.",
	http.StatusUnauthorized:          "There is no token or session, or it is not valid.",
	http.StatusForbidden:             "The caller may not do this.",
	http.StatusNotFound:              "The object does not exist, or the caller does not see it.",
	http.StatusConflict:              "The state of the object does not allow it, or another request with the same idempotency key is in progress.",
	http.StatusRequestEntityTooLarge: "The body is too long.",
	http.StatusUnprocessableEntity:   "The idempotency key was used with another request.",
	http.StatusTooManyRequests:       "Too many requests, or a budget or quota is used up.",
	http.StatusInternalServerError:   "The hub failed. Its log has the request id.",
	http.StatusServiceUnavailable:    "The hub, a node or a provider is not available.",
}

// components returns what the paths refer to.
func components(schemas object) object {
	asProblem := object{"application/problem+json": object{"schema": ref("Problem")}}
	responses := object{
		"Problem":     object{"description": "Another error.", "content": asProblem},
		"NotModified": object{"description": "The response has not changed since the one with the ETag of If-None-Match."},
	}
	for code, text := range failures {
		response := object{"description": text, "content": asProblem}
		if code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable || code == http.StatusConflict {
			response["headers"] = object{"Retry-After": object{"$ref": "#/components/headers/RetryAfter"}}
		}
		responses[responseName(code)] = response
	}
	header := func(text string) object { return object{"description": text, "schema": object{"type": "string"}} }
	return object{
		"schemas":   schemas,
		"responses": responses,
		"headers": object{
			"CorrelationId":       header("The id of the request in the hub's log."),
			"ETag":                header("The digest of the response; missing for one that is longer than 1 MiB."),
			"RetryAfter":          header("The number of seconds after which to try again, if that is known."),
			"RateLimit":           header("The number of calls that the token may make now."),
			"RateLimitPolicy":     header("The number of calls that the token may make in a second."),
			"IdempotencyReplayed": header("`true` for the response of an earlier request with the same idempotency key."),
		},
		"parameters": object{
			"IdempotencyKey": object{
				"name": "Idempotency-Key", "in": "header",
				"description": "A key of your choice, such as a UUID. A repetition of the request with the same key and token within 24 hours changes nothing and gets the first response.",
				"schema":      object{"type": "string", "minLength": 1, "maxLength": 255},
			},
			"IfNoneMatch": object{
				"name": "If-None-Match", "in": "header", "description": "The ETag of a response that you have.",
				"schema": object{"type": "string"},
			},
		},
		"securitySchemes": object{
			"token":   object{"type": "http", "scheme": "bearer", "description": "An API token: `deckhand token create`."},
			"session": object{"type": "apiKey", "in": "cookie", "name": "deckhand_session", "description": "The session of the console. Requests that change something have to come from a page of the hub."},
		},
	}
}

// examples are bodies by the name of their method.
var examples = map[string]object{
	"SubmitTask":      {"agentId": "first-agent", "goal": "Greet the reader."},
	"CancelTask":      {"reason": "not needed any more"},
	"PauseTask":       {"reason": "waits for a decision"},
	"TellTask":        {"text": "Use the staging database."},
	"TellAgent":       {"text": "Look at the newest report."},
	"AnswerInboxItem": {"shownDigest": "DIGEST", "approve": object{}},
	"CreateToken":     {"kind": "TOKEN_KIND_USER", "name": "ci", "readOnly": true, "ttl": "2592000s"},
	"StartNodeExec":   {"nodeId": "build-1", "argv": []string{"uname", "-a"}, "host": true, "reason": "which kernel runs there"},
	"FireTrigger":     {"goal": "Check the backups now."},
}

// stream adds the schemas that only the streams use.
func (d *document) stream() {
	d.schemas["TaskUpdate"] = object{
		"type": "object", "description": "A message of the WebSocket to the client: an event with its cursor, the answer to a command, or a problem.",
		"properties": object{
			"cursor":       object{"type": "string", "description": "Pass it as after to continue behind this message."},
			"event":        ref("Event"),
			"thinking":     object{"type": "object", "additionalProperties": true, "description": "A piece of what the model thinks, with thinking=true."},
			"stepProgress": object{"type": "object", "additionalProperties": true, "description": "How far a running command is, with progress=true."},
			"id":           object{"type": "string", "description": "The id of the command that this is the answer to."},
			"result":       object{"type": "object", "additionalProperties": true, "description": "The response of the command's RPC."},
			"problem":      ref("Problem"),
		},
	}
}

// streams are the paths that are not transcoded.
func streams() object {
	parameter := func(name, in, text string, schema object, required bool) object {
		out := object{"name": name, "in": in, "description": text, "schema": schema}
		if required {
			out["required"] = true
		}
		return out
	}
	words := object{"type": "string"}
	after := parameter("after", "query", "The cursor to continue from, or `now`. Without it, all stored events are sent first.", words, false)
	kinds := parameter("kinds", "query", "Only these events, separated by commas: types, lifecycle names, the beginning of names with a `*`, or groups.", words, false)
	follow := parameter("follow", "query", "`false` ends the stream after the stored events.", object{"type": "boolean", "default": true}, false)
	thinking := parameter("thinking", "query", "Also send what the model thinks, as it comes.", object{"type": "boolean", "default": false}, false)
	progress := parameter("progress", "query", "Also send how far running commands are, at most once a second for each; only with `task`.", object{"type": "boolean", "default": false}, false)
	failed := func(out object) object {
		for _, code := range []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests} {
			out[fmt.Sprint(code)] = object{"$ref": "#/components/responses/" + responseName(code)}
		}
		out["default"] = object{"$ref": "#/components/responses/Problem"}
		return out
	}
	log := func(id, tag, variable, summary, of, rpc string, follows bool) object {
		text := "`Range` with one range works, so that a client can continue a broken download. Output that is missing, because the node's disk was full or retention has deleted it, is sent as NUL bytes, so that offsets hold. " +
			"While more is written, the length is not known, and a range has at most 4 MiB"
		parameters := []any{parameter(variable, "path", of, words, true)}
		if follows {
			text += "; `follow=true` sends what comes until the command ends"
			parameters = append(parameters, parameter("follow", "query", "Go on until the command has ended.", object{"type": "boolean", "default": false}, false))
		}
		return object{"get": object{
			"operationId": id, "tags": []string{tag}, "summary": summary,
			"description": text + ".\n\nNeeds the role `viewer` or a higher one. The RPC is `deckhand.v1." + rpc + "`.",
			"parameters":  append(parameters, parameter("Range", "header", "The part to send, such as `bytes=1000-`.", words, false)),
			"responses": failed(object{
				"200": object{"description": "The whole log.", "content": object{"application/octet-stream": object{}}},
				"206": object{"description": "The part.", "content": object{"application/octet-stream": object{}}},
				"416": object{"description": "The log has no such part.", "content": object{"application/problem+json": object{"schema": ref("Problem")}}},
			}),
		}}
	}
	raw := object{"application/octet-stream": object{}}
	file := func(id, variable, whose string) object {
		return object{"get": object{
			"operationId": id, "tags": []string{"File"}, "summary": "Returns a file of the workspace of " + whose + " as it is",
			"description": "The `ETag` is the file's BLAKE3 digest of 256 bits in hex. `Range` with one range and `If-Range` work, so that a client can continue a broken download. Secrets are not masked, and each download is in the audit.\n\n" +
				"Needs the role `advanced` or a higher one. The RPC is `deckhand.v1.FileService/DownloadFiles`.",
			"parameters": []any{
				parameter(variable, "path", "The id or a unique prefix.", words, true), parameter("path", "path", "The file, with its folders as segments.", words, true),
				parameter("Range", "header", "The part to send, such as `bytes=1000-`.", words, false),
			},
			"responses": failed(object{
				"200": object{"description": "The file.", "content": raw}, "206": object{"description": "The part.", "content": raw},
				"304": object{"description": "The file is the one of `If-None-Match`."},
				"416": object{"description": "The file has no such part.", "content": object{"application/problem+json": object{"schema": ref("Problem")}}},
			}),
		}}
	}
	export := func(id, tag, summary, rpc, role string, kinds []string, parameters ...any) object {
		content := object{}
		for _, kind := range kinds {
			content[kind] = object{}
		}
		return object{"get": object{
			"operationId": id, "tags": []string{tag}, "summary": summary,
			"description": "It is written while it is read, whatever its length. The trailer `Repr-Digest` has its SHA-256; a response without it is incomplete.\n\nNeeds the role `" + role + "` or a higher one. The RPC is `deckhand.v1." + rpc + "`.",
			"parameters":  parameters,
			"responses":   failed(object{"200": object{"description": "The export.", "content": content}}),
		}}
	}
	task := parameter("task", "path", "The id of a task or a unique prefix.", words, true)
	agent := parameter("agent", "path", "The id of an agent, a unique prefix or its name.", words, true)
	archive := []any{
		parameter("format", "query", "`tar`, or `git-patch` for what a task changed.", object{"type": "string", "enum": []string{"tar", "git-patch"}, "default": "tar"}, false),
		parameter("path", "query", "Only this path and what is below it.", words, false),
		parameter("changesOnly", "query", "Of a task: only what it changed.", object{"type": "boolean", "default": false}, false),
	}
	archives := []string{"application/x-tar", "text/x-patch"}
	return object{
		"/v1/tasks/{task}/files/{path}":   file("downloadTaskFile", "task", "a task"),
		"/v1/agents/{agent}/files/{path}": file("downloadAgentFile", "agent", "an agent"),
		"/v1/tasks/{task}/workspace":      export("exportTaskWorkspace", "Workspace", "Returns the workspace of a task as an archive", "WorkspaceService/ExportWorkspace", "advanced", archives, append([]any{task}, archive...)...),
		"/v1/agents/{agent}/workspace":    export("exportAgentWorkspace", "Workspace", "Returns the workspace of an agent as an archive", "WorkspaceService/ExportWorkspace", "advanced", archives, append([]any{agent}, archive...)...),
		"/v1/tasks/{task}/export": export("exportTask", "History", "Returns a task with all its events, steps and logs as JSON Lines", "HistoryService/ExportTask", "viewer", []string{"application/jsonl", "application/x-asciicast"},
			task, parameter("format", "query", "`jsonl`, or `asciicast` for what its commands showed.", object{"type": "string", "enum": []string{"jsonl", "asciicast"}, "default": "jsonl"}, false)),
		"/v1/audit-entries:export": export("exportAudit", "Audit", "Returns the sealed entries of the audit log as JSON Lines, which can be verified without a hub", "AuditService/ExportAudit", "admin", []string{"application/jsonl"},
			parameter("after", "query", "Only what is behind this position, or behind the nearest head below it.", object{"type": "integer", "format": "int64"}, false)),
		"/v1/steps/{step}/log": log("readStepLog", "Task", "step", "Returns the raw output of a step's command", "The id of a step or a unique prefix.", "TaskService/ReadLog", true),
		"/v1/tasks/{task}/log": log("readTaskLog", "Task", "task", "Returns the raw output of all commands of a task that have ended, in the order in which they ended, each below a line with its step",
			"The id of a task or a unique prefix.", "TaskService/ReadTaskLog", false),
		"/v1/node-execs/{exec}/log": log("readNodeLog", "NodeExec", "exec", "Returns the raw output of a person's command", "The id of a command or a unique prefix.", "NodeExecService/ReadNodeLog", true),
		"/v1/events": object{"get": object{
			"operationId": "streamEvents", "tags": []string{"Event"}, "summary": "Streams events as server-sent events",
			"description": "The `id` of each is a cursor: a client that connects again with it as `Last-Event-ID` gets what came after, without gaps and repeats. " +
				"The name of each is the event's type. A comment is sent every 15 seconds if nothing else is. `event: end` says that nothing more comes, and `event: problem` why the stream ends.\n\n" +
				"Needs the role `viewer` or a higher one. The RPC is `deckhand.v1.EventService/Watch`.",
			"parameters": []any{
				parameter("task", "query", "Only events of these tasks, separated by commas: ids or unique prefixes.", words, false),
				parameter("agent", "query", "Only events of tasks of these agents, separated by commas: ids, unique prefixes or names.", words, false),
				kinds, after, follow, thinking, progress,
				parameter("Last-Event-ID", "header", "The cursor to continue from. It goes before `after`.", words, false),
			},
			"responses": failed(object{
				"200": object{"description": "The stream.", "content": object{"text/event-stream": object{"schema": words}}},
				"204": object{"description": "The tasks have ended, and all of their events were sent before."},
			}),
		}},
		"/v1/tasks/{task}/updates": object{"get": object{
			"operationId": "taskUpdates", "tags": []string{"Task"}, "summary": "A WebSocket with the events of a task and commands for it",
			"description": "Text messages with JSON. The hub sends `TaskUpdate`. The client sends commands: `{\"id\": \"1\", \"message\": {\"text\": \"…\"}}`, `pause`, `resume`, or " +
				"`{\"id\": \"2\", \"approve\": {\"itemId\": \"…\", \"shownDigest\": \"…\"}}`, each with the fields of its RPC's request. The answer has the command's id.\n\n" +
				"Needs the role `viewer` or a higher one; each command needs what its RPC needs.",
			"parameters": []any{
				parameter("task", "path", "The id of a task or a unique prefix.", words, true), kinds, after, follow, thinking, progress,
			},
			"responses": failed(object{
				"101": object{"description": "The connection is a WebSocket from here on."},
				"200": object{"description": "Never sent; this is what the messages look like.", "content": object{"application/json": object{"schema": ref("TaskUpdate")}}},
				"426": object{"description": "The request is not one for a WebSocket.", "content": object{"application/problem+json": object{"schema": ref("Problem")}}},
			}),
		}},
	}
}
