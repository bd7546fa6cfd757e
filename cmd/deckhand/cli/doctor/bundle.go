package doctor

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/internal/datadir"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/version"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

const (
	// maxLog bounds what is taken of the end of each log, in bytes.
	maxLog = 2 << 20
	// maxListed bounds the list of the data folder.
	maxListed = 2000
)

// logs of the data folder that the bundle takes the ends of.
var logs = []string{"log/up.jsonl", "postgres/postgres.log", "containerd/containerd.log"}

// secrets of the data folder, which are masked wherever they occur.
var secrets = []string{datadir.AdminTokenFile, datadir.WorkerTokenFile}

func bundleCommand(e *env.Env, o *options) *cobra.Command {
	var dataDir string
	cmd := &cobra.Command{
		Use: "bundle FILE", Short: "Write an archive for a bug report, without secrets",
		Long: `Writes FILE, a .tar.gz archive with what doctor finds, the versions, the lists of nodes
and workers, the names, sizes and modes of the files in the data folder, and the ends of
the logs there. Goals, results, personas and command output are not part of it. Tokens,
keys and passwords are masked; read the archive before you send it all the same.`,
		Example: "deckhand doctor bundle deckhand-bundle.tar.gz", Args: env.Args("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			if err := writeBundle(cmd.Context(), client, args[0], dataDir, !o.noCalls); err != nil {
				return err
			}
			e.Notef("wrote %s: look into it before you send it (tar tzf %s)", args[0], args[0])
			return nil
		},
	}
	dir, err := datadir.Default()
	if err != nil {
		dir = ""
	}
	if named := os.Getenv("DECKHAND_DATA_DIR"); named != "" {
		dir = named
	}
	cmd.Flags().StringVar(&dataDir, "data-dir", dir, "the hub's data folder, if it is on this machine")
	return cmd
}

// bundle is an archive whose files are masked.
type bundle struct {
	archive *tar.Writer
	mask    *redact.Redactor
	now     time.Time
}

func writeBundle(ctx context.Context, client *sdk.Client, path, dataDir string, calls bool) (err error) {
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fault.New(fault.Exists, "%s exists already", path).WithFix("name another file")
	}
	if err != nil {
		return env.Unreadable(path, err)
	}
	defer func() {
		if err = errors.Join(err, out.Close()); err != nil {
			_ = os.Remove(path)
		}
	}()
	packed := gzip.NewWriter(out)
	b := &bundle{archive: tar.NewWriter(packed), mask: &redact.Redactor{}, now: time.Now()}
	for _, name := range secrets {
		if data, err := os.ReadFile(filepath.Join(dataDir, name)); err == nil {
			b.mask.Add(strings.TrimSpace(string(data)))
		}
	}
	b.maskKeyset(filepath.Join(dataDir, "keyset.json"))
	if err := b.fill(ctx, client, dataDir, calls); err != nil {
		return err
	}
	return errors.Join(b.archive.Close(), packed.Close(), out.Sync())
}

// passwords finds passwords of URLs and values of authorization headers, which have no
// shape of their own.
var passwords = []*regexp.Regexp{
	regexp.MustCompile(`(://[^:/@\s"]*:)[^@\s"]+(@)`),
	regexp.MustCompile(`(://)[^@/\s"]+(@)`),
	// In JSON, in JSON within a string, and in anything else.
	regexp.MustCompile(`(?i)((?:` + keys + `)"\s*:\s*")(?:[^"\\]|\\.)*(")`),
	regexp.MustCompile(`(?i)((?:` + keys + `)\\+"\s*:\s*\\+").*?(\\+")`),
	regexp.MustCompile(`(?i)((?:` + keys + `)\s*[:=]\s*\[?"?(?:bearer |basic )?)[^\s",;\\\]]+()`),
	regexp.MustCompile(`(?i)((?:set-)?cookie\s*[:=]\s*\[?)[^"\\\r\n]+()`),
}

const keys = `authorization|password|secret|token|api[_-]?key|(?:set-)?cookie`

// maskKeyset has every key of the vault's root masked.
func (b *bundle) maskKeyset(path string) {
	data, err := os.ReadFile(path)
	if err != nil {
		return
	}
	var keyset struct {
		Key []struct {
			KeyData struct {
				Value string `json:"value"`
			} `json:"keyData"`
		} `json:"key"`
	}
	if json.Unmarshal(data, &keyset) == nil {
		for _, key := range keyset.Key {
			b.mask.Add(key.KeyData.Value)
		}
	}
}

func (b *bundle) fill(ctx context.Context, client *sdk.Client, dataDir string, calls bool) error {
	var found []map[string]string
	for _, f := range check(ctx, client, calls) {
		found = append(found, map[string]string{"check": f.name, "state": f.state, "says": f.says, "fix": f.fix})
	}
	for name, value := range map[string]any{
		"doctor.json":  found,
		"version.json": map[string]string{"deckhand": version.Version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH, "written_at": b.now.UTC().Format(time.RFC3339)},
	} {
		text, err := json.MarshalIndent(value, "", "  ")
		if err != nil {
			return fmt.Errorf("encode %s: %w", name, err)
		}
		if err := b.add(name, string(text)); err != nil {
			return err
		}
	}
	if err := b.lists(ctx, client); err != nil {
		return err
	}
	if err := b.add("data-folder.txt", listing(dataDir)); err != nil {
		return err
	}
	for _, name := range logs {
		text, err := tail(filepath.Join(dataDir, name))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if err := b.add(filepath.Base(name), text); err != nil {
			return err
		}
	}
	return nil
}

// lists adds what the hub lists; what the caller may not see is left out.
func (b *bundle) lists(ctx context.Context, client *sdk.Client) error {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	nodes, err := client.Nodes.ListNodes(ctx, &deckhandv1.ListNodesRequest{PageSize: env.PageSize})
	if err == nil {
		err = b.message("nodes.json", nodes)
	}
	if err != nil && connect.CodeOf(err) == connect.CodeUnknown {
		return err
	}
	workers, err := client.Queue.ListWorkers(ctx, &deckhandv1.ListWorkersRequest{PageSize: env.PageSize})
	if err == nil {
		err = b.message("workers.json", workers)
	}
	if err != nil && connect.CodeOf(err) == connect.CodeUnknown {
		return err
	}
	return nil
}

func (b *bundle) message(name string, m proto.Message) error {
	text, err := protojson.MarshalOptions{Multiline: true}.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return b.add(name, string(text))
}

// add adds a file, masked.
func (b *bundle) add(name, text string) error {
	text = b.mask.String(text)
	for _, p := range passwords {
		text = p.ReplaceAllString(text, "${1}[redacted]${2}")
	}
	if err := b.archive.WriteHeader(&tar.Header{Name: "deckhand-bundle/" + name, Mode: 0o600, Size: int64(len(text)), ModTime: b.now}); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if _, err := io.WriteString(b.archive, text); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// listing returns names, sizes and modes of the data folder, without workspaces.
func listing(dir string) string {
	var out strings.Builder
	n := 0
	// What cannot be read is left out.
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return fs.SkipDir
		}
		if n++; n > maxListed {
			out.WriteString("…\n")
			return fs.SkipAll
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "workspaces" || d.Name() == "cluster" || d.Name() == "rootfs" || strings.HasPrefix(d.Name(), "io.containerd")) {
			return fs.SkipDir
		}
		if info, err := d.Info(); err == nil {
			fmt.Fprintf(&out, "%s %12d %s %s\n", info.Mode(), info.Size(), info.ModTime().UTC().Format(time.RFC3339), name)
		}
		return nil
	})
	return out.String()
}

// tail returns the end of a file, from the beginning of a line.
func tail(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	cut := info.Size() - maxLog
	if cut > 0 {
		if _, err := f.Seek(cut, io.SeekStart); err != nil {
			return "", err
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, maxLog))
	text := string(data)
	if cut > 0 {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text, err
}
