package complete

import (
	"strings"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/credential"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/trigger"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/provider"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

var roles = []string{"viewer", "basic", "advanced", "admin"}

// enum returns the words of an enum's values, without the unspecified one.
func enum[E interface {
	~int32
	String() string
}](names map[int32]string) (out []string) {
	for number := int32(1); number < int32(len(names)); number++ {
		out = append(out, output.EnumName(E(number)))
	}
	return out
}

// nouns are the completions of placeholders, wherever they stand.
var nouns = map[string]completion{
	"TASK": {list: tasks()}, "STEP|TASK": {list: tasks()}, "AGENT": {list: agents}, "NODE": {list: nodes}, "TRIGGER": {list: triggers},
	"DESTINATION": {list: destinations}, "NOTIFICATION": {list: notifications}, "DELIVERY": {list: deliveries}, "USER": {list: users}, "TEAM": {list: teams},
	"WORKER": {list: workers}, "HOLD": {list: holds}, "EXEC": {list: execs}, "EXEC|STEP": {list: execs}, "TOKEN": {list: tokens}, "JOB": {list: jobs},
	"PROVIDER": {list: providers}, "MODEL": {list: models((*deckhandv1.Price).GetModel)},
	"PROVIDER/MODEL": {list: models(func(x *deckhandv1.Price) string { return x.GetProvider() + "/" + x.GetModel() })},
	"ROLE":           {words: roles}, "RULE": {list: allowRules}, "SCOPE": {words: []string{"organisation", "user", "task", "lineage"}},
	"FILE": {files: true}, "FILE|DIR": {files: true}, "FOLDER": {files: true}, "LOCAL": {files: true}, "ARCHIVE": {files: true},
}

// places are the completions of a command's arguments that their placeholder
// alone does not tell: by the command, a space, and the placeholder. A final
// word of a command stands for the command below any group.
var places = map[string]completion{
	"agent message NAME": {list: agents}, "agent pause NAME": {list: agents}, "agent prepare NAME": {list: agents},
	"agent resume NAME": {list: agents}, "agent show NAME": {list: agents},
	"context use NAME":       {list: contexts},
	"context remove NAME":    {list: contexts},
	"credential delete NAME": {list: credentials}, "credential rotate NAME": {list: credentials}, "credential show NAME": {list: credentials},
	"credential test NAME": {list: credentials}, "credential usage NAME": {list: credentials},
	"organisation limit NAME": {list: organisations}, "quota set NAME": {words: []string{"free", "starter", "professional", "enterprise", "self-hosted"}},
	"registry delete HOST": {list: registries}, "registry verify delete PATTERN": {list: signatureRules},
	"access delete WHAT": {list: accessRules}, "access set WHAT": {words: []string{"*", "admin"}},
	"provider connect PROVIDER": {words: provider.Connectable()},
	"quota calls PROVIDER":      {list: providers},
	"kill ID":                   {list: killed},
	"budget set NAME":           {list: budgeted}, "budget show NAME": {list: budgeted},
	"inbox accept ID": {list: items(deckhandv1.InboxKind_INBOX_KIND_REVIEW)}, "inbox changes ID": {list: items(deckhandv1.InboxKind_INBOX_KIND_REVIEW)},
	"inbox answer ID": {list: items(deckhandv1.InboxKind_INBOX_KIND_QUESTION)}, "inbox approve ID": {list: items(deckhandv1.InboxKind_INBOX_KIND_APPROVAL)},
	"inbox mark ID": {list: items(deckhandv1.InboxKind_INBOX_KIND_UNKNOWN)}, "inbox skip ID": {list: items()}, "inbox close ID": {list: items()},
	"task cancel TASK": {list: tasks(live()...)}, "task pause TASK": {list: tasks(live()...)}, "task resume TASK": {list: tasks(live()...)},
	"task message TASK": {list: tasks(live()...)}, "task reorder TASK": {list: tasks(live()...)},
	"policy corpus FILE": {files: true},
	"task reply TASK":    {list: tasks(live()...)},
}

// positional returns the completion of a placeholder of a command.
func positional(command, name string) completion {
	if found, ok := places[command+" "+name]; ok {
		return found
	}
	if strings.HasPrefix(command, "inbox ") && name == "ID" {
		return completion{list: items()}
	}
	if found, ok := nouns[name]; ok {
		return found
	}
	if strings.ToLower(name) == name && strings.Contains(name, "|") {
		return completion{words: strings.Split(name, "|")}
	}
	return completion{}
}

// flags are the completions of flags, by their name.
var flags = map[string]completion{
	"agent": {list: agents}, "to-agent": {list: agents}, "task": {list: tasks()}, "to-task": {list: tasks()}, "parent": {list: tasks()},
	"after": {list: tasks()}, "before": {list: tasks(deckhandv1.TaskState_TASK_STATE_QUEUED)},
	"node": {list: nodes}, "to-node": {list: nodes}, "from-node": {list: nodes}, "user": {list: users}, "delivery": {list: deliveries},
	"provider": {list: providers}, "model": {list: models((*deckhandv1.Price).GetModel)},
	"output": {words: output.Formats}, "mode": {words: persona.Modes()}, "role": {words: roles}, "log-level": {words: []string{"trace", "debug", "info", "warn", "error"}},
	"log-format": {words: []string{"json", "text"}}, "severity": {words: []string{"low", "medium", "high", "critical"}}, "every": {words: []string{"day", "month"}},
	"smtp-security": {words: []string{"starttls", "tls", "none"}}, "overlap": {words: []string{"allow", "skip", "queue", "replace"}},
	"missed": {words: []string{"skip", "once", "all"}}, "verify": {words: trigger.Verifications()},
	"signature-encoding": {words: []string{"hex", "base64"}}, "signature-hash": {words: []string{"sha256", "sha1", "sha512"}},
	"method": {words: []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}}, "api": {words: []string{"github", "gitlab"}},
	"always": {words: []string{"exact", "commands", "shape", "tool"}}, "type": {words: eventkind.Selectable()},
	"config": {files: true}, "data-dir": {files: true}, "filename": {files: true}, "input": {files: true}, "file": {files: true}, "payload": {files: true},
	"secret-file": {files: true}, "key-file": {files: true}, "password-file": {files: true}, "current-file": {files: true}, "value-file": {files: true},
	"client-secret-file": {files: true}, "key": {files: true}, "roots": {files: true}, "trusted-root": {files: true}, "tls-cert": {files: true},
	"tls-key": {files: true}, "nats-ca": {files: true}, "show-paths": {files: true}, "registry-config": {files: true}, "containerd": {files: true},
}

// flagPlaces are the completions of a command's flags that the name alone does
// not tell, by the command, a space, and the flag.
var flagPlaces = map[string]completion{
	"task list state":                 {words: enum[deckhandv1.TaskState](deckhandv1.TaskState_name)},
	"trigger deliveries state":        {words: enum[deckhandv1.DeliveryState](deckhandv1.DeliveryState_name)},
	"destination notifications state": {words: []string{"pending", "delivered", "dead"}},
	"inbox list kind":                 {words: enum[deckhandv1.InboxKind](deckhandv1.InboxKind_name)},
	"credential create kind":          {words: credential.Kinds()},
	"trigger create webhook":          {words: trigger.Senders()},
	"task stats by":                   {words: []string{"agent", "version", "task_type", "tool", "outcome", "day", "week", "month"}},
	"budget report by":                {words: []string{"agent", "user", "model", "task", "day", "month"}},
	"audit list by":                   {list: users},
	"task export format":              {words: []string{"jsonl", "asciicast"}},
	"task resume-from workspace":      {words: []string{"restore", "overwrite", "keep"}},
	"inbox replan plan":               {files: true},
	"run after":                       {list: tasks()},
	"audit export after":              {}, "provider price input": {}, "inbox approve key": {}, "task resume-from name": {},
	"destination redrive all": {list: destinations},
}

func flagCompletion(command, name string) completion {
	if found, ok := flagPlaces[command+" "+name]; ok {
		return found
	}
	return flags[name]
}
