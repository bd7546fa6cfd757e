package memory

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// An export is JSON Lines: an entry in each, with the SHA-256 of the line without its digest,
// and a last line with the number of entries and the digest of all their digests.

const (
	// maxLine bounds a line, in bytes: a value is 64 KiB at most, and may be escaped.
	maxLine = 1 << 20
	// maxExport is how many entries a scope has at most.
	maxExport = 10_000
	// importBatch is how many entries a call takes.
	importBatch = 500
)

type line struct {
	Type       string          `json:"type,omitempty"`
	Key        string          `json:"key,omitempty"`
	Value      json.RawMessage `json:"value,omitempty"`
	Confidence float64         `json:"confidence,omitempty"`
	ExpiresAt  *time.Time      `json:"expires_at,omitempty"`
	Untrusted  bool            `json:"untrusted,omitempty"`
	Source     string          `json:"source,omitempty"`
	UpdatedAt  *time.Time      `json:"updated_at,omitempty"`
	// Entries is set in the last line.
	Entries *int   `json:"entries,omitempty"`
	Digest  string `json:"digest,omitempty"`
}

// digest returns the digest of a line.
func (l line) digest() (string, error) {
	l.Digest = ""
	if len(l.Value) > 0 { // however it is spaced
		var v any
		if err := json.Unmarshal(l.Value, &v); err != nil {
			return "", err
		}
		plain, err := json.Marshal(v)
		if err != nil {
			return "", err
		}
		l.Value = plain
	}
	data, err := json.Marshal(l)
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:]), err
}

func lineOf(m entry) (line, error) {
	value, err := m.GetValue().MarshalJSON()
	if err != nil {
		return line{}, fmt.Errorf("encode %s: %w", m.GetId(), err)
	}
	updated := m.GetUpdatedAt().AsTime()
	out := line{
		Type: output.EnumName(m.GetType()), Key: m.GetKey(), Value: value, Confidence: m.GetConfidence(),
		Untrusted: m.GetUntrusted(), Source: source(m), UpdatedAt: &updated,
	}
	if m.GetExpiresAt() != nil {
		at := m.GetExpiresAt().AsTime()
		out.ExpiresAt = &at
	}
	out.Digest, err = out.digest()
	return out, err
}

func writeExport(w io.Writer, entries []entry) error {
	out := bufio.NewWriter(w)
	write := func(l line) error {
		data, err := json.Marshal(l)
		if err != nil {
			return err
		}
		_, err = out.Write(append(data, '\n'))
		return err
	}
	all := sha256.New()
	for _, m := range entries {
		l, err := lineOf(m)
		if err != nil {
			return err
		}
		all.Write([]byte(l.Digest))
		if err := write(l); err != nil {
			return fmt.Errorf("write the export: %w", err)
		}
	}
	n := len(entries)
	if err := write(line{Entries: &n, Digest: sum(all)}); err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	return out.Flush()
}

func sum(h hash.Hash) string { return "sha256:" + hex.EncodeToString(h.Sum(nil)) }

// readExport reads an export and checks its digests.
func readExport(r io.Reader) ([]*deckhandv1.ImportMemoriesRequest_Entry, error) {
	bad := func(n int, format string, args ...any) error {
		return fault.New(fault.Invalid, "line %d of the export: %s", n, fmt.Sprintf(format, args...)).
			WithFix("export again: deckhand memory export")
	}
	var out []*deckhandv1.ImportMemoriesRequest_Entry
	all := sha256.New()
	lines := bufio.NewReaderSize(io.LimitReader(r, maxLine*maxExport), maxLine)
	for n := 1; ; n++ {
		data, err := lines.ReadSlice('\n')
		if len(bytes.TrimSpace(data)) == 0 && err != nil {
			return nil, bad(n, "the last line, with the number of entries, is missing: the file is not complete")
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, bad(n, "%v", err)
		}
		var l line
		if err := json.Unmarshal(data, &l); err != nil {
			return nil, bad(n, "it is no JSON: %v", err)
		}
		if l.Entries != nil {
			if *l.Entries != len(out) || l.Digest != sum(all) {
				return nil, bad(n, "entries are missing, added or in another order")
			}
			return out, nil
		}
		digest, err := l.digest()
		if err != nil || digest != l.Digest {
			return nil, bad(n, "the entry %q is not what was exported: its digest is another", l.Key)
		}
		all.Write([]byte(l.Digest))
		value := &structpb.Value{}
		if err := value.UnmarshalJSON(l.Value); err != nil {
			return nil, bad(n, "the value of %q is no JSON", l.Key)
		}
		e := &deckhandv1.ImportMemoriesRequest_Entry{
			Type: deckhandv1.MemoryType(deckhandv1.MemoryType_value["MEMORY_TYPE_"+strings.ToUpper(l.Type)]),
			Key:  l.Key, Value: value, Confidence: l.Confidence, Untrusted: l.Untrusted,
		}
		if l.ExpiresAt != nil {
			e.ExpiresAt = timestamppb.New(*l.ExpiresAt)
		}
		if out = append(out, e); len(out) > maxExport {
			return nil, bad(n, "it has more than %d entries", maxExport)
		}
	}
}

func exportCommand(e *env.Env) *cobra.Command {
	var scope string
	cmd := &cobra.Command{
		Use: "export", Short: "Print the entries of a scope as JSON Lines, with digests",
		Long:    "Prints an entry on each line, and a last line by which an import sees that nothing is missing.",
		Example: "deckhand memory export > memory.jsonl\ndeckhand memory export --scope agent:coder > coder.jsonl", Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			of, err := scopeOf(cmd, scope)
			if err != nil {
				return err
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			entries, err := sdk.All(cmd.Context(), client.Memories.ListMemories, func(token string) *deckhandv1.ListMemoriesRequest {
				return &deckhandv1.ListMemoriesRequest{Scope: of, PageToken: token, PageSize: 500}
			}, (*deckhandv1.ListMemoriesResponse).GetMemories)
			if err != nil {
				return err
			}
			if err := writeExport(e.Out, entries); err != nil {
				return err
			}
			e.Notef("%d entries", len(entries))
			return nil
		},
	}
	cmd.Flags().StringVar(&scope, "scope", "user", scopeHelp)
	return cmd
}

func importCommand(e *env.Env) *cobra.Command {
	var scope, on string
	var dryRun bool
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Store the entries of an export in a scope",
		Long: `FILE is one of "deckhand memory export", or - for the standard input. Its digests are checked.
An entry that exists with another value is a conflict: by default nothing is stored then,
and the conflicts are listed. What an agent had written after untrusted input, and nobody
had confirmed, stays so.`,
		Example: "deckhand memory import memory.jsonl --dry-run\ndeckhand memory import memory.jsonl --scope team:payments --on-conflict keep", Args: env.Args("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			into, err := scopeOf(cmd, scope)
			if err != nil {
				return err
			}
			conflict, found := map[string]deckhandv1.MemoryConflict{
				"fail": deckhandv1.MemoryConflict_MEMORY_CONFLICT_UNSPECIFIED, "keep": deckhandv1.MemoryConflict_MEMORY_CONFLICT_KEEP,
				"replace": deckhandv1.MemoryConflict_MEMORY_CONFLICT_REPLACE,
			}[on]
			if !found {
				return env.Usage(cmd, "--on-conflict is %q, and is to be fail, keep or replace", on)
			}
			in := e.In
			if args[0] != "-" {
				file, err := os.Open(args[0])
				if err != nil {
					return env.Unreadable(args[0], err)
				}
				defer func() { _ = file.Close() }()
				in = file
			}
			entries, err := readExport(in)
			if err != nil {
				return err
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			return importEntries(cmd, e, client, &deckhandv1.ImportMemoriesRequest{Scope: into, OnConflict: conflict, DryRun: dryRun}, entries)
		},
	}
	cmd.Flags().StringVar(&scope, "scope", "user", scopeHelp)
	cmd.Flags().StringVar(&on, "on-conflict", "fail", "the `ACTION` for an entry that exists with another value: fail, keep or replace")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be done, and do nothing")
	return cmd
}

// importEntries imports entries in batches. It tries all of them first, so that a conflict in a
// later batch leaves nothing of an earlier one.
func importEntries(cmd *cobra.Command, e *env.Env, client *sdk.Client, req *deckhandv1.ImportMemoriesRequest, entries []*deckhandv1.ImportMemoriesRequest_Entry) error {
	type result = *deckhandv1.ImportMemoriesResponse_Result
	dry := req.GetDryRun()
	counts := map[string]int{}
	var shown []result
	run := func(dryRun, count bool) error {
		for from := 0; from < len(entries); from += importBatch {
			req.Entries, req.DryRun = entries[from:min(len(entries), from+importBatch)], dryRun
			res, err := client.Memories.ImportMemories(cmd.Context(), req)
			if err != nil {
				return err
			}
			for _, r := range res.GetResults() {
				if count {
					counts[r.GetOutcome()]++
					if r.GetOutcome() != "unchanged" {
						shown = append(shown, r)
					}
				}
			}
		}
		return nil
	}
	if err := run(true, true); err != nil {
		return err
	}
	bad := counts["conflict"] + counts["refused"]
	if !dry && bad == 0 && len(entries) > 0 {
		if err := run(false, false); err != nil {
			return err
		}
	}
	if err := output.List(e.Printer(), output.Noun[result]{
		Name: result.GetKey,
		Columns: []output.Column[result]{
			{Header: "outcome", Value: result.GetOutcome},
			{Header: "type", Value: func(r result) string { return output.EnumName(r.GetType()) }},
			{Header: "key", Value: result.GetKey},
			{Header: "reason", Value: result.GetReason},
		},
	}, shown); err != nil {
		return err
	}
	e.Notef("%d created, %d replaced, %d unchanged, %d kept, %d conflicts, %d refused",
		counts["created"], counts["replaced"], counts["unchanged"], counts["kept"], counts["conflict"], counts["refused"])
	if bad > 0 && !dry {
		return fault.New(fault.Precondition, "nothing was stored: %d entries are conflicts, and %d are refused", counts["conflict"], counts["refused"]).
			WithFix("choose with --on-conflict keep or replace, and remove what is refused")
	}
	return nil
}
