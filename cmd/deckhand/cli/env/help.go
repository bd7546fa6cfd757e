package env

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// quoted is a value's name that a flag's usage gives itself, as pflag has it.
var quoted = regexp.MustCompile("`([A-Z][A-Z0-9_/=|-]*)`")

// values are the names of flags' values in the help, by the flag's name, where the type
// and the end of the name do not tell.
var values = map[string]string{
	"action": "ACTION", "admin": "NAME", "after": "ID", "agent": "AGENT", "all": "DESTINATION", "allow": "PATTERN", "always": "SCOPE", "anthropic-api-key": "KEY", "api": "API", "app-id": "ID",
	"arguments": "JSON", "artifact": "PATH", "asciicast": "FILE", "assign": "AGENT", "at": "TIME", "audience": "AUDIENCE",
	"base-path": "PATH", "before": "ID", "branch": "BRANCH", "by": "KEY", "checkpoint": "CHECKPOINT", "choice": "OPTION", "client-id": "ID", "config": "FILE",
	"confirm": "NAME", "containerd": "PATH", "containerd-namespace": "NAME", "contains": "TEXT", "context": "CONTEXT", "data-dir": "FOLDER",
	"delivery": "DELIVERY", "description": "TEXT", "dir": "FOLDER", "email": "ADDRESS", "env": "NAME=VALUE", "error": "CODE", "events": "KIND", "every": "PERIOD", "expires": "TIME",
	"filename": "FILE", "for-agent": "AGENT", "format": "FORMAT", "from": "DAY", "from-env": "VARIABLE", "from-node": "NODE", "git": "URL", "greeting": "STYLE",
	"gvisor-platform": "PLATFORM", "header": "NAME=VALUE", "host": "HOST", "hub": "URL", "id": "ID", "idempotency-key": "KEY", "identity": "IDENTITY", "images": "FOLDER", "in": "COLLECTION",
	"input": "FILE", "into": "FOLDER", "issuer": "URL", "job": "JOB", "join-token": "TOKEN", "key": "FILE", "keyset-key": "KEY", "kind": "KIND",
	"label": "KEY=VALUE", "labels": "KEY=VALUE", "limit": "NAME=VALUE", "log-format": "FORMAT", "log-level": "LEVEL", "map": "NAME=EXPRESSION", "memory": "SIZE", "message": "TEXT",
	"method": "METHOD", "metrics": "URL", "mirror": "URL", "mode": "MODE", "model": "MODEL", "name": "NAME", "nats-ca": "FILE", "new-keyset-key": "KEY", "node": "NODE", "node-programs": "FOLDER",
	"notify-allow": "CIDR", "object": "ID", "oidc-groups-claim": "CLAIM", "oidc-issuer": "URL", "oidc-organisation": "ORGANISATION", "oidc-roles": "GROUP=ROLE",
	"only": "SCENARIO", "output": "FORMAT", "owner": "OWNER", "page": "TOKEN", "page-token": "TOKEN", "parameter": "NAME", "parent": "ID", "path": "PATTERN",
	"payload": "FILE", "permission": "PERMISSION", "plan": "FILE", "pool": "POOL", "pressure-max-load": "LOAD", "pressure-min-disk": "PERCENT", "pressure-min-memory": "PERCENT", "prefix": "PREFIX", "provider": "PROVIDER", "provider-allow": "CIDR",
	"reason": "TEXT", "recipient": "ADDRESS", "region": "REGION", "registries": "HOST", "registry-addresses": "CIDR", "registry-config": "FOLDER",
	"reply-to": "ADDRESS", "repository": "OWNER/NAME", "robot": "NAME", "role": "ROLE", "roots": "FILE", "scope": "SCOPE", "search": "TEXT", "secret": "SECRET",
	"service": "SERVICE", "severity": "SEVERITY", "share": "NAME=NODE:PATH", "shown": "DIGEST", "since": "DAY", "smtp-security": "SECURITY", "smtp-user": "NAME",
	"snapshotter": "NAME", "source": "SOURCE", "special-addresses": "CIDR", "state": "STATE", "step": "STEP", "summary": "TEXT", "task": "TASK", "task-type": "TYPE", "tasks": "FILE",
	"text": "TEXT", "title": "TEXT", "tls-cert": "FILE", "tls-key": "FILE", "to": "DAY", "to-agent": "AGENT", "to-node": "NODE", "to-task": "TASK",
	"token": "TOKEN", "tool": "TOOL", "trusted-proxies": "CIDR", "trusted-root": "FILE", "type": "TYPE", "until": "DAY", "user": "USER", "username": "NAME",
	"cron": "SCHEDULE", "dedupe-header": "HEADER", "dedupe-key": "CEL", "filter": "CEL", "goal": "TEXT", "missed": "CHOICE", "overlap": "CHOICE",
	"signature-encoding": "ENCODING", "signature-hash": "HASH", "signature-header": "HEADER", "signature-prefix": "PREFIX", "single-flight": "KEY",
	"time-zone": "ZONE", "verify": "VERIFICATION",
	"variable": "VARIABLE", "version": "VERSION", "visibility": "VISIBILITY", "webhook": "SENDER", "workspace": "CHOICE", "journal-units": "UNIT", "browse-paths": "FOLDER", "journal-fields": "FIELD",
}

// endings are the names of values by how the flag's name ends.
var endings = []struct{ end, value string }{
	{"-file", "FILE"}, {"-dir", "FOLDER"}, {"-paths", "PATH"}, {"-path", "PATH"}, {"-url", "URL"}, {"-listen", "HOST:PORT"}, {"-address", "HOST:PORT"},
	{"-secret", "SECRET"}, {"-password", "PASSWORD"}, {"-id", "ID"}, {"-host", "HOST"}, {"-regexp", "REGEXP"},
	{"listen", "HOST:PORT"}, {"file", "FILE"}, {"url", "URL"},
}

// byType are the names of values of numbers and times, and numbers those of numbers that
// are of something.
var (
	byType = map[string]string{
		"duration": "DURATION", "int": "NUMBER", "int32": "NUMBER", "int64": "NUMBER", "uint": "NUMBER", "uint32": "NUMBER", "uint64": "NUMBER",
		"float64": "NUMBER", "uintSlice": "NUMBER", "intSlice": "NUMBER",
	}
	numbers = map[string]string{
		"breaker-cost": "USD", "budget": "USD", "loop-budget": "USD", "max-bytes": "BYTES", "cache-read": "USD", "cache-write": "USD", "input": "USD", "output": "USD", "offset": "BYTES", "version": "VERSION", "port": "PORT",
		"smtp-port": "PORT", "iteration": "ITERATION", "context": "LINES", "tail": "LINES", "cycle-day": "DAY", "egress-uid": "UID", "uid-base": "UID",
		"installation-id": "ID", "from": "VERSION", "to": "VERSION", "revision": "REVISION",
	}
)

// ValueName returns what stands for the value of a flag in the help, such as AGENT in
// "--agent AGENT": "" of a flag that takes none, and of one whose name, type and usage tell
// nothing.
func ValueName(f *pflag.Flag) string {
	kind := f.Value.Type()
	if kind == "bool" || kind == "count" {
		return ""
	}
	if own := quoted.FindStringSubmatch(f.Usage); own != nil {
		return own[1]
	}
	if name, ok := byType[kind]; ok {
		if own, ok := numbers[f.Name]; ok && kind != "duration" {
			return own
		}
		return name
	}
	if name, ok := values[f.Name]; ok {
		return name
	}
	for _, e := range endings {
		if strings.HasSuffix(f.Name, e.end) {
			return e.value
		}
	}
	return ""
}

// Help returns a help function that shows what show does, with the names of values behind
// the flags that take one.
func Help(show func(*cobra.Command, []string)) func(*cobra.Command, []string) {
	return func(cmd *cobra.Command, args []string) {
		// A copy that is only shown: its flags have the names that are printed.
		shown := *cmd
		shown.ResetFlags()
		shown.Flags().SortFlags = cmd.Flags().SortFlags
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			named := *f
			switch value := ValueName(f); {
			case value == "":
			case f.NoOptDefVal != "":
				named.Name += "[=" + value + "]"
			default:
				named.Name += " " + value
			}
			named.Usage = quoted.ReplaceAllString(f.Usage, "$1")
			shown.Flags().AddFlag(&named)
		})
		show(&shown, args)
	}
}
