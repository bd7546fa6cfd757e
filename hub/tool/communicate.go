package tool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/internal/bytesize"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	sendTimeout = 90 * time.Second
	// maxAttachment bounds one file, which is what a node returns at once, and
	// maxAttachments all files of a message, in bytes.
	maxAttachment  = 4 << 20
	maxAttachments = 10 << 20
	// maxLetter shows a mail and the data of a webhook whole.
	maxLetter = 128 << 10
)

// Note is a text for people and destinations.
type Note struct {
	Title, Text          string
	People, Destinations []string
}

// Letter is a mail of plain text.
type Letter struct {
	Account, Subject, Text string
	To                     []string
	Files                  []File
}

// File is a file of the workspace that goes with a message.
type File struct {
	// Path is as the agent gave it.
	Path string
	Data []byte
}

// Delivery is how it went to send something at most once.
type Delivery struct {
	// To is the name of the destination, and Status that of HTTP or SMTP; 0 for none.
	To     string
	Status int
	// Said is the beginning of the response.
	Said string
	// Refused is why it was not sent; nil if it was.
	Refused *fault.Error
	// Unknown reports that it cannot be found out whether the receiver has it.
	Unknown bool
}

// Messenger sends what agents write to people and other systems. What contains a secret that
// the hub knows is refused. Each run of a step is sent at most once.
type Messenger interface {
	// Notify stores a note with the outcome of its call. It returns who gets it, and which
	// people have no device that takes notifications.
	Notify(ctx context.Context, n Note) (reached, missed []string, err error)
	// Trigger calls a webhook with an event.
	Trigger(ctx context.Context, destination, kind string, data map[string]any) (Delivery, error)
	// Check returns the account and the address that a letter would be sent from, or why it
	// may not be sent.
	Check(ctx context.Context, l Letter) (account, address string, err error)
	Mail(ctx context.Context, l Letter) (Delivery, error)
	// Earlier returns how it went if Trigger or Mail sent something in this run of the step
	// before; it waits if another call sends it now.
	Earlier(ctx context.Context) (d Delivery, found bool, err error)
}

func communicationTools() []*Tool {
	const (
		safe      = deckhandv1.ToolCategory_TOOL_CATEGORY_SAFE
		moderate  = deckhandv1.ToolCategory_TOOL_CATEGORY_MODERATE
		dangerous = deckhandv1.ToolCategory_TOOL_CATEGORY_DANGEROUS
		hub       = deckhandv1.ToolPlace_TOOL_PLACE_HUB
	)
	leaves := func(map[string]any) bool { return true }
	return []*Tool{
		{
			Name: toolname.SendNotification,
			Description: "Send a short text to people of your organisation, on their devices, and to destinations such as a chat. Use it for what they want to know " +
				"while you go on: a result, or something that needs attention soon. To get an answer, use request_input. " +
				`Example: {"people": ["ada"], "destinations": ["ops-chat"], "title": "Backup is late", "message": "The backup of db-3 has not run since Monday. I am looking into it."}.`,
			Kind: KindCommunication, Expected: time.Second,
			// It is stored with the step's outcome, so that it is sent once.
			Category: safe, Place: hub, Idempotent: true, Irreversible: "people have seen the text", Timeout: sendTimeout, stores: true,
			schema: `{"type":"object","additionalProperties":false,"required":["title","message"],"anyOf":[{"required":["people"]},{"required":["destinations"]}],"properties":{
				"people":{"type":"array","minItems":1,"maxItems":20,"uniqueItems":true,"items":{"type":"string","minLength":1,"maxLength":128},"description":"Names of users"},
				"destinations":{"type":"array","minItems":1,"maxItems":10,"uniqueItems":true,"items":{"type":"string","minLength":1,"maxLength":64},"description":"Names of destinations that an administrator allows you to use"},
				"title":{"type":"string","minLength":1,"maxLength":150,"pattern":"^[^\\r\\n]*\\S[^\\r\\n]*$","description":"One line"},
				"message":{"type":"string","minLength":1,"maxLength":2000,"pattern":"\\S"}}}`,
			run: runNotify, preview: previewNotify,
		},
		{
			Name: toolname.WebhookTrigger,
			Description: "Call a webhook that an administrator has set up for you, with an event of JSON: to start a deployment or to hand data to another system. " +
				"It is signed, and sent once. For other requests, use http_post. " +
				`Example: {"destination": "deploys", "event": "deploy.requested", "data": {"service": "web", "version": "1.4.2"}}.`,
			Kind: KindCommunication, Expected: 2 * time.Second,
			Category: moderate, Place: hub, Irreversible: "the effect of the event on the receiver", Timeout: sendTimeout, Leaves: leaves, previewBytes: maxLetter,
			schema: `{"type":"object","additionalProperties":false,"required":["destination","event"],"properties":{
				"destination":{"type":"string","minLength":1,"maxLength":64,"description":"The name of a webhook destination"},
				"event":{"type":"string","minLength":1,"maxLength":100,"pattern":"^[a-z][a-z0-9_]*(\\.[a-z][a-z0-9_]*)*$","description":"The type of the event, such as deploy.requested"},
				"data":{"type":"object","maxProperties":100,"description":"What the receiver needs to know; at most 64 KiB of JSON"}}}`,
			run: once(sendTrigger, triggered), preview: previewTrigger,
		},
		{
			Name: toolname.SendEmail,
			Description: "Send an email of plain text, with files of your workspace as attachments. It goes from an account that an administrator has set up, and only to " +
				"addresses that the account may write to. Write no HTML. " +
				`Example: {"to": ["ops@example.com"], "subject": "Report of week 12", "body": "Attached is the report.\n\nThe agent reporter", "attachments": ["report.csv"]}.`,
			Kind: KindCommunication, Expected: 5 * time.Second,
			Category: dangerous, Place: hub, Irreversible: "the mail that its recipients have", Timeout: sendTimeout, Leaves: leaves, previewBytes: maxLetter,
			schema: `{"type":"object","additionalProperties":false,"required":["to","subject","body"],"properties":{
				"to":{"type":"array","minItems":1,"maxItems":20,"uniqueItems":true,"items":{"type":"string","minLength":3,"maxLength":320},"description":"Addresses, without names"},
				"subject":{"type":"string","minLength":1,"maxLength":150,"pattern":"^[^\\r\\n]*\\S[^\\r\\n]*$","description":"One line"},
				"body":{"type":"string","minLength":1,"maxLength":50000,"pattern":"\\S","description":"Plain text"},
				"attachments":{"type":"array","maxItems":10,"uniqueItems":true,"items":{"type":"string","minLength":1,"maxLength":4096},"description":"Paths of files, of at most 4 MiB each and 10 MiB together"},
				"account":{"type":"string","minLength":1,"maxLength":64,"description":"The account to send from; needed only if there are several"}}}`,
			run: once(sendMail, mailed), preview: previewMail, inspect: inspectMail,
		},
	}
}

// texts returns the strings of a list argument.
func texts(arguments map[string]any, key string) (out []string) {
	list, _ := arguments[key].([]any)
	for _, one := range list {
		if s, ok := one.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

func noteOf(arguments map[string]any) Note {
	return Note{
		Title: text(arguments, "title"), Text: text(arguments, "message"),
		People: texts(arguments, "people"), Destinations: texts(arguments, "destinations"),
	}
}

func previewNotify(arguments map[string]any) string {
	n := noteOf(arguments)
	return fmt.Sprintf("to: %s\ntitle: %s\n\n%s", strings.Join(slices.Concat(n.People, n.Destinations), ", "), n.Title, n.Text)
}

func runNotify(ctx context.Context, c Call) (Result, error) {
	reached, missed, err := c.Messages.Notify(ctx, noteOf(c.Arguments))
	if err != nil {
		return failed(err)
	}
	said := "sent to " + strings.Join(reached, ", ")
	if len(missed) > 0 {
		said += "; not to " + strings.Join(missed, ", ") + ": no device of theirs takes notifications. Name a destination, or ask with request_input"
	}
	outcome := map[string]any{"sent_to": len(reached), "missed": len(missed)}
	if len(reached) == 0 {
		return Result{Failed: true, Code: fault.ToolFailed, Observation: fmt.Sprintf("error %s: %s", fault.ToolFailed, strings.TrimPrefix(said, "sent to ; ")), Outcome: outcome}, nil
	}
	return Result{Observation: said, Outcome: outcome}, nil
}

// maxData bounds the data of an event, in bytes of JSON.
const maxData = 64 << 10

func dataOf(arguments map[string]any) (data map[string]any, shown string, err error) {
	data, _ = arguments["data"].(map[string]any)
	encoded, err := json.MarshalIndent(data, "", "  ")
	if err != nil {
		return nil, "", fmt.Errorf("encode the data of an event: %w", err)
	}
	if len(encoded) > maxData {
		err = fault.New(fault.Invalid, "data has %s of JSON", bytesize.Format(int64(len(encoded)))).WithCode(fault.InvalidParameters).WithFix("send at most 64 KiB")
	}
	return data, string(encoded), err
}

func previewTrigger(arguments map[string]any) string {
	_, shown, _ := dataOf(arguments)
	return fmt.Sprintf("%s to webhook %s\n\n%s", text(arguments, "event"), text(arguments, "destination"), shown)
}

// once sends what a call sends, unless this run of the step did so before: then that is how it
// went, and nothing that has changed since makes it one that failed.
func once(send func(ctx context.Context, c Call) (Result, error), went func(c Call, d Delivery) Result) func(context.Context, Call) (Result, error) {
	return func(ctx context.Context, c Call) (Result, error) {
		if c.Earlier != nil {
			return went(c, *c.Earlier), nil
		}
		r, err := send(ctx, c)
		if err != nil || !r.Failed {
			return r, err
		}
		// Another call of the same run may have sent it while this one was refused.
		d, found, err := c.Messages.Earlier(ctx)
		if err != nil || !found {
			return r, err
		}
		return went(c, d), nil
	}
}

func sendTrigger(ctx context.Context, c Call) (Result, error) {
	data, _, err := dataOf(c.Arguments)
	if err != nil {
		return failed(err)
	}
	d, err := c.Messages.Trigger(ctx, text(c.Arguments, "destination"), text(c.Arguments, "event"), data)
	if err != nil {
		return failed(err)
	}
	return triggered(c, d), nil
}

func triggered(c Call, d Delivery) Result {
	r := delivered(d, c.StepID)
	if !r.Failed && !r.Unknown {
		r.Observation = fmt.Sprintf("%s took it and answered %d", d.To, d.Status)
		if d.Said != "" {
			r.Observation += ": " + d.Said
		}
	}
	return r
}

// delivered returns how a call ended that sent something.
func delivered(d Delivery, stepID string) Result {
	r := Result{Outcome: map[string]any{"destination": d.To, "status": d.Status, "message_id": stepID}}
	switch {
	case d.Unknown:
		r.Unknown, r.Observation = true, fmt.Sprintf("it is not known whether %s has it: the connection or the hub was lost after it was sent, and before the response was stored", d.To)
		if d.Said != "" {
			r.Observation += " (" + d.Said + ")"
		}
	case d.Refused != nil:
		refused := refusal(d.Refused)
		r.Failed, r.Code, r.Observation = true, refused.Code, refused.Observation
	}
	return r
}

// html finds mail that is written for a browser.
var html = regexp.MustCompile(`(?i)<!doctype\s+html|<(html|head|body|script|style|iframe|object|embed)(\s[^<>]*)?>`)

// opened are the ends of names of files that programs of mail show as pages or run.
var opened = []string{".html", ".htm", ".xhtml", ".shtml", ".svg", ".mht", ".mhtml", ".exe", ".js", ".vbs", ".scr", ".lnk", ".hta"}

// letterOf reads a mail from a call, with its files.
func letterOf(ctx context.Context, c Call) (Letter, error) {
	l := Letter{Account: text(c.Arguments, "account"), Subject: text(c.Arguments, "subject"), Text: text(c.Arguments, "body"), To: texts(c.Arguments, "to")}
	invalid := func(format string, args ...any) *fault.Error {
		return fault.New(fault.Invalid, format, args...).WithCode(fault.InvalidParameters)
	}
	if found := html.FindString(l.Text); found != "" {
		return l, invalid("body contains HTML: %.40q", found).WithFix("write plain text")
	}
	names, files := map[string]bool{}, texts(c.Arguments, "attachments")
	for _, file := range files {
		name := path.Base(path.Clean("/" + file))
		if slices.Contains(opened, strings.ToLower(path.Ext(name))) {
			return l, invalid("attachments has %.200q, which a mail program may open as a page or a program", file).WithFix("send it as text, PDF or an archive")
		}
		if names[name] {
			return l, invalid("attachments has two files that are called %.200q", name).WithFix("rename one")
		}
		names[name] = true
	}
	var err error
	l.Files, err = ReadAttachments(ctx, c, files)
	return l, err
}

// ReadAttachments reads whole files of the workspace, within the bounds of what may be
// attached to a mail or a question.
func ReadAttachments(ctx context.Context, c Call, paths []string) (files []File, err error) {
	size := 0
	for _, file := range paths {
		data, err := readAttachment(ctx, c, file)
		if err != nil {
			return nil, err
		}
		if size += len(data); size > maxAttachments {
			return nil, fault.New(fault.Invalid, "the attachments have more than 10 MiB together").WithCode(fault.InvalidParameters).WithFix("send fewer, or compress them")
		}
		files = append(files, File{Path: file, Data: data})
	}
	return files, nil
}

// readAttachment reads a whole file of the workspace.
func readAttachment(ctx context.Context, c Call, file string) ([]byte, error) {
	if c.Node == nil {
		return nil, fault.New(fault.Precondition, "the task has no workspace to attach %.200q from", file).WithCode(fault.InvalidParameters).WithFix("leave attachments out")
	}
	var res *nodev1.ReadFileResponse
	if err := inJail(ctx, c, func() (err error) {
		res, err = c.Node.Files().ReadFile(ctx, &nodev1.ReadFileRequest{JailId: c.Jail.GetJailId(), Path: file, Limit: maxAttachment})
		return err
	}); err != nil {
		return nil, fault.FromGRPC(err)
	}
	if res.GetSize() > maxAttachment {
		return nil, fault.New(fault.Invalid, "attachment %.200q has %s", file, bytesize.Format(res.GetSize())).WithCode(fault.InvalidParameters).
			WithFix("send at most 4 MiB of each file: shorten or compress it")
	}
	return res.GetContent(), nil
}

// Sum identifies the content of a file: its SHA-256 in hexadecimal.
func (f File) Sum() string {
	digest := sha256.Sum256(f.Data)
	return hex.EncodeToString(digest[:])
}

// state identifies what an approval of a mail is for, besides its arguments.
func (l Letter) state(account, address string) string {
	parts := []string{account, address}
	for _, f := range l.Files {
		parts = append(parts, f.Path, f.Sum())
	}
	state, _ := json.Marshal(parts) // strings
	return string(state)
}

func previewMail(arguments map[string]any) string {
	var out strings.Builder
	fmt.Fprintf(&out, "to: %s\nsubject: %s\n", strings.Join(texts(arguments, "to"), ", "), text(arguments, "subject"))
	for _, file := range texts(arguments, "attachments") {
		fmt.Fprintf(&out, "attached: %s\n", file)
	}
	return out.String() + "\n" + text(arguments, "body")
}

// inspectMail returns from whom a mail would go, and its attachments as they are now.
func inspectMail(ctx context.Context, c Call) (Inspection, error) {
	l, err := letterOf(ctx, c)
	if err != nil {
		if e := fault.As(err); e != nil && e.Kind != fault.Internal && e.Kind != fault.Unavailable && e.Kind != fault.Deadline && e.Kind != fault.Canceled {
			return Inspection{Refused: e}, nil
		}
		return Inspection{}, err
	}
	account, address, err := c.Messages.Check(ctx, l)
	if err != nil {
		if e := fault.As(err); e != nil && e.Kind != fault.Internal {
			return Inspection{Refused: e}, nil
		}
		return Inspection{}, err
	}
	var out strings.Builder
	fmt.Fprintf(&out, "sent from %s (account %s), as plain text", address, account)
	for _, f := range l.Files {
		fmt.Fprintf(&out, "\nattachment %s: %d bytes, SHA-256 %s", f.Path, len(f.Data), f.Sum())
	}
	return Inspection{State: l.state(account, address), Preview: out.String()}, nil
}

func sendMail(ctx context.Context, c Call) (Result, error) {
	l, err := letterOf(ctx, c)
	if err != nil {
		return failed(err)
	}
	if c.Approved != "" {
		account, address, err := c.Messages.Check(ctx, l)
		if err != nil {
			return failed(err)
		}
		if c.Approved != l.state(account, address) {
			return failed(fault.New(fault.Precondition, "the attachments or the account have changed since the mail was approved").WithCode(fault.ToolFailed).WithFix("send it again, so that a person can look at it"))
		}
		l.Account = account // that one, though another may have become the only one
	}
	d, err := c.Messages.Mail(ctx, l)
	if err != nil {
		return failed(err)
	}
	return mailed(c, d), nil
}

func mailed(c Call, d Delivery) Result {
	r, to := delivered(d, c.StepID), texts(c.Arguments, "to")
	r.Outcome["recipients"], r.Outcome["attachments"] = len(to), len(texts(c.Arguments, "attachments"))
	if !r.Failed && !r.Unknown {
		r.Observation = fmt.Sprintf("the server of account %s took the mail to %s", d.To, strings.Join(to, ", "))
	}
	return r
}
