package knowledge

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/zeebo/blake3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/extracted"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/textcut"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// box is the jail in which the documents of one source are read. Nothing else is in it, it
// connects nowhere but to the source, and it is removed afterwards with all that it wrote.
type box struct {
	k      *Knowledge
	source db.KnowledgeSource
	link   machine.Link
	nodeID string
	jailID string
	spec   *nodev1.JailSpec
	// missed says which documents of the source did not come into the jail; empty for none.
	missed string
}

// Limits of a jail, and the names of its files.
const (
	boxMillis   = 1000
	boxMemory   = 2 << 30
	boxPIDs     = 128
	boxBytes    = 4 << 30
	boxTmp      = 256 << 20
	documents   = "documents"
	knownFile   = "known.json"
	outFile     = "passages.jsonl"
	inWorkspace = "/workspace/"
	execTime    = 40 * time.Minute
	waitStep    = 20 * time.Second
	readStep    = 4 << 20
	maxCopied   = 2 << 30
	// maxChanged is how many files may change while a workspace is copied.
	maxChanged = 200
	ignoreFile = ".gitignore"
	// maxCopiedFiles is how many files of a workspace are copied, of which .gitignore may name
	// most.
	maxCopiedFiles = 50_000
	sendStep       = 1 << 20
	maxSaid        = 600
	downloadTime   = 2 * time.Minute
)

// open prepares the jail for a source. It returns the nodes that the jail may be on: that of
// the source, or any that takes work.
func open(ctx context.Context, k *Knowledge, s db.KnowledgeSource) (b *box, nodes []string, err error) {
	b = &box{k: k, source: s, jailID: ident.New("know"), nodeID: s.NodeID}
	b.spec = &nodev1.JailSpec{
		JailId: b.jailID, Rootfs: nodelink.RootHost, CpuMillis: boxMillis, MemoryBytes: boxMemory, Pids: boxPIDs, TmpBytes: boxTmp, WorkspaceBytes: boxBytes,
	}
	switch s.Kind {
	case Workspace:
		if s.JailID != "" {
			break
		}
		agent, err := k.cfg.Store.GetAgent(ctx, db.GetAgentParams{OrgID: s.OrgID, ID: s.AgentID})
		if err != nil {
			return nil, nil, fault.New(fault.NotFound, "the agent is gone").WithObject(s.AgentID).WithFix("remove the source").WithCause(err)
		}
		if agent.Agent.HomeNodeID == nil {
			return nil, nil, fault.New(fault.Precondition, "agent %s has no workspace yet", agent.Agent.Name).WithFix("its first run makes one").WithObject(s.AgentID)
		}
		b.nodeID = *agent.Agent.HomeNodeID
	case Node:
		b.spec.ReadOnlyPaths = []string{s.Path}
	}
	if b.nodeID != "" {
		return b, []string{b.nodeID}, nil
	}
	rows, _, err := k.cfg.Nodes.List(ctx, s.OrgID, "", 500)
	if err != nil {
		return nil, nil, err
	}
	var old error
	for _, row := range rows {
		if !row.Connected || node.Blocked(row.Node, row.Lock) != "" {
			continue
		}
		if connects(s) {
			if err := node.Require(row.Node, nodelink.Credentials, "decide about requests by method and path"); err != nil {
				old = cmp.Or(old, err)
				continue
			}
		}
		nodes = append(nodes, row.Node.ID)
	}
	if len(nodes) == 0 && old != nil {
		return nil, nil, old
	}
	if len(nodes) == 0 {
		return nil, nil, fault.New(fault.Unavailable, "no node is connected that takes work, and documents are read in a jail of one").
			WithFix("connect a node: deckhand node token; or unlock or resume one")
	}
	return b, nodes, nil
}

// make creates the jail on a node. A small node refuses what a large one gives: it is asked for
// less then.
func (b *box) make(ctx context.Context) (err error) {
	for _, part := range []int64{1, 2, 4} {
		b.spec.MemoryBytes, b.spec.WorkspaceBytes = boxMemory/part, boxBytes/part
		_, err = b.link.Jails().EnsureJail(ctx, &nodev1.EnsureJailRequest{Spec: b.spec})
		if err = fault.FromGRPC(err); !fault.Is(err, fault.Precondition) && !fault.Is(err, fault.Exhausted) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("make a jail to read documents in: %w", err)
	}
	return nil
}

// close removes the jail.
func (b *box) close(ctx context.Context) error {
	_, err := b.link.Jails().RemoveJail(ctx, &nodev1.RemoveJailRequest{JailId: b.jailID})
	if err = fault.FromGRPC(err); fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// fill brings the documents of a source into the jail. It returns the folder that they are in.
func (b *box) fill(ctx context.Context, s db.KnowledgeSource) (root string, err error) {
	root = inWorkspace + documents
	switch s.Kind {
	case Upload:
		return root, b.uploads(ctx, s)
	case Workspace:
		return root, b.workspace(ctx, s)
	case Node:
		return s.Path, nil
	case Git:
		argv := []string{"git", "-c", "protocol.allow=never", "-c", "protocol.https.allow=always", "-c", "core.symlinks=false", "clone", "--quiet", "--depth", "1", "--single-branch", "--no-tags"}
		if s.Revision != "" {
			argv = append(argv, "--branch", s.Revision)
		}
		said, err := b.run(ctx, append(argv, "--", s.Url, root), execTime)
		if err != nil {
			return "", fault.New(fault.Precondition, "the repository cannot be cloned: %s", said).WithCause(err).
				WithFix("check the address and the branch; a repository that is not public needs a credential")
		}
		return path.Join(root, s.Path), nil
	default:
		u, err := url.Parse(s.Url)
		if err != nil {
			return "", err
		}
		file := path.Base("/" + u.Path)
		if file == "/" || strings.HasPrefix(file, ".") {
			file = "index"
		}
		if path.Ext(file) == "" {
			file += ".html"
		}
		arguments, err := json.Marshal(map[string]any{"url": s.Url, "path": documents + "/" + u.Hostname() + "/" + file, "max_file_bytes": extracted.MaxFile, "timeout_seconds": int(downloadTime.Seconds())})
		if err != nil {
			return "", err
		}
		if said, err := b.run(ctx, []string{nodelink.SkillPath, toolname.HTTPDownload, string(arguments)}, 2*downloadTime); err != nil {
			return "", fault.New(fault.Precondition, "the page cannot be downloaded: %s", said).WithCause(err).WithFix("check the address")
		}
		return root, nil
	}
}

// run runs a command in the jail, and returns the end of what it said.
func (b *box) run(ctx context.Context, argv []string, most time.Duration) (said string, err error) {
	spec := &nodev1.ExecSpec{
		ExecId: ident.New("exec"), JailId: b.jailID, Argv: argv, Dir: strings.TrimSuffix(inWorkspace, "/"), Timeout: durationpb.New(most),
		Env: []string{"GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C.UTF-8"},
	}
	if _, err := b.link.Exec().StartExec(ctx, &nodev1.StartExecRequest{Spec: spec}); err != nil {
		return "", fmt.Errorf("start a command in the jail: %w", fault.FromGRPC(err))
	}
	for {
		res, err := b.link.Exec().WaitExec(ctx, &nodev1.WaitExecRequest{ExecId: spec.GetExecId(), Timeout: durationpb.New(waitStep), UntilEnd: true})
		if err != nil {
			return "", fmt.Errorf("wait for a command in the jail: %w", fault.FromGRPC(err))
		}
		e := res.GetExec()
		if e.GetState() != nodev1.ExecState_EXEC_STATE_ENDED {
			continue
		}
		if e.GetEndReason() == nodev1.EndReason_END_REASON_EXITED && e.GetExitCode() == 0 {
			return "", nil
		}
		said = b.tail(ctx, spec.GetExecId())
		if said == "" {
			said = strings.ToLower(strings.TrimPrefix(e.GetEndReason().String(), "END_REASON_"))
		}
		return said, fault.New(fault.Precondition, "%s", said)
	}
}

// tail returns the end of a command's output in one line.
func (b *box) tail(ctx context.Context, execID string) string {
	in, err := b.link.Exec().ReadLog(ctx, &nodev1.ReadLogRequest{ExecId: execID, TailBytes: maxSaid})
	if err != nil {
		return ""
	}
	var out []byte
	for {
		piece, err := in.Recv()
		if err != nil {
			break
		}
		out = append(out, piece.GetData()...)
	}
	said := strings.ToValidUTF8(strings.ReplaceAll(string(out), "\x00", ""), "\uFFFD")
	return textcut.Runes(strings.Join(strings.Fields(said), " "), maxSaid, "…")
}

// uploads copies uploaded files into the jail.
func (b *box) uploads(ctx context.Context, s db.KnowledgeSource) error {
	rows, err := b.k.cfg.Store.KnowledgeUploads(ctx, db.KnowledgeUploadsParams{OrgID: s.OrgID, SourceID: s.ID})
	if err != nil {
		return fmt.Errorf("list the uploads of source %s: %w", s.ID, err)
	}
	out, err := b.link.Files().UploadFiles(ctx)
	if err != nil {
		return fmt.Errorf("copy uploads into the jail: %w", fault.FromGRPC(err))
	}
	send := func(m *nodev1.UploadFilesRequest) {
		if err == nil {
			err = out.Send(m)
		}
	}
	send(begin(b.jailID))
	send(folderEntry())
	for _, name := range rows {
		content, cerr := b.k.cfg.Store.KnowledgeUpload(ctx, db.KnowledgeUploadParams{OrgID: s.OrgID, SourceID: s.ID, Path: name})
		if cerr != nil {
			return fmt.Errorf("load upload %q: %w", name, cerr)
		}
		digest := blake3.Sum256(content)
		send(&nodev1.UploadFilesRequest{Message: &nodev1.UploadFilesRequest_Entry{Entry: &nodev1.UploadEntry{
			Path: name, Type: "file", Mode: 0o600, Size: int64(len(content)), Digest: fmt.Sprintf("%x", digest),
		}}})
		for len(content) > 0 {
			n := min(len(content), sendStep)
			send(&nodev1.UploadFilesRequest{Message: &nodev1.UploadFilesRequest_Data{Data: content[:n]}})
			content = content[n:]
		}
	}
	if err == nil || errors.Is(err, io.EOF) {
		_, err = out.CloseAndRecv()
	}
	if err != nil {
		return fmt.Errorf("copy uploads into the jail: %w", fault.FromGRPC(err))
	}
	return nil
}

func begin(jailID string) *nodev1.UploadFilesRequest {
	return &nodev1.UploadFilesRequest{Message: &nodev1.UploadFilesRequest_Begin_{Begin: &nodev1.UploadFilesRequest_Begin{JailId: jailID, Path: documents}}}
}

// folderEntry returns an upload of a hidden folder, which is not read. It creates the folder of the
// documents, also if there are no documents to upload.
func folderEntry() *nodev1.UploadFilesRequest {
	return &nodev1.UploadFilesRequest{Message: &nodev1.UploadFilesRequest_Entry{Entry: &nodev1.UploadEntry{Path: ".read", Type: "dir", Mode: 0o700}}}
}

// workspace copies a folder of an agent's workspace into the jail. What is not read is not
// copied.
func (b *box) workspace(ctx context.Context, s db.KnowledgeSource) error {
	from, folder := cmp.Or(s.JailID, task.AgentJail(s.AgentID)), s.Path
	wanted := []string{cmp.Or(folder, ".")}
	// The rules of the folders above it are for it too.
	for above := folder; above != ""; {
		above = strings.TrimPrefix(path.Dir(above), ".")
		wanted = append(wanted, path.Join(above, ignoreFile))
	}
	in, err := b.link.Files().DescribeFiles(ctx, &nodev1.DescribeFilesRequest{
		JailId: from, Paths: wanted, MaxFiles: 100_000, MaxBytes: maxCopied, Visible: true, MaxFileBytes: extracted.MaxFile,
	})
	if err != nil {
		return fmt.Errorf("list %s: %w", wanted[0], fault.FromGRPC(err))
	}
	var files []*nodev1.UploadEntry
	documents, missing := 0, false
	for {
		m, err := in.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", wanted[0], fault.FromGRPC(err))
		}
		missing = missing || slices.Contains(m.GetMissing(), wanted[0])
		for _, e := range m.GetEntries() {
			rules := path.Base(e.GetPath()) == ignoreFile && !hidden(path.Dir(e.GetPath()))
			switch {
			case e.GetType() != "file" || hidden(e.GetPath()) && !rules:
			case rules:
				files = append(files, e)
			case documents < maxCopiedFiles:
				documents++
				files = append(files, e)
			default:
				b.missed = fmt.Sprintf("only the first %d files are read: index a smaller folder", maxCopiedFiles)
			}
		}
	}
	if missing {
		return fault.New(fault.NotFound, "the workspace has no %s", folder).WithFix("look with: deckhand agent files ls AGENT")
	}
	out, err := b.link.Files().UploadFiles(ctx)
	if err != nil {
		return fmt.Errorf("copy documents into the jail: %w", fault.FromGRPC(err))
	}
	err = out.Send(begin(b.jailID))
	if err == nil {
		err = out.Send(folderEntry())
	}
	changed := 0
	for len(files) > 0 && err == nil {
		part := files[:min(len(files), 1000)]
		// An agent works there meanwhile: a file that changes or goes while it is copied is
		// left out, and the next sync reads it.
		done, perr := b.pass(ctx, from, part, out.Send)
		switch kind := fault.FromGRPC(perr); {
		case perr == nil:
		case changed < maxChanged && done < len(part) && (fault.Is(kind, fault.Aborted) || fault.Is(kind, fault.NotFound) || fault.Is(kind, fault.Invalid)):
			changed, done = changed+1, done+1
		default:
			err = perr
		}
		files = files[done:]
	}
	if changed > 0 {
		b.missed = fmt.Sprintf("%d files changed while they were copied, and are read by the next sync", changed)
	}
	if err == nil || errors.Is(err, io.EOF) {
		_, err = out.CloseAndRecv()
	}
	if err != nil {
		return fmt.Errorf("copy documents into the jail: %w", fault.FromGRPC(err))
	}
	return nil
}

// pass copies some files from a workspace, and returns how many it has copied: each whole or
// not at all.
func (b *box) pass(ctx context.Context, from string, files []*nodev1.UploadEntry, send func(*nodev1.UploadFilesRequest) error) (done int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, err := b.link.Files().DownloadFiles(ctx, &nodev1.DownloadFilesRequest{JailId: from, Entries: files})
	if err != nil {
		return 0, err
	}
	var held []byte
	begun := false
	whole := func() error {
		if !begun {
			return nil
		}
		e := files[done]
		digest := blake3.Sum256(held)
		err := send(&nodev1.UploadFilesRequest{Message: &nodev1.UploadFilesRequest_Entry{Entry: &nodev1.UploadEntry{
			Path: e.GetPath(), Type: "file", Mode: 0o600, Size: int64(len(held)), Digest: hex.EncodeToString(digest[:]),
		}}})
		for rest := held; len(rest) > 0 && err == nil; {
			n := min(len(rest), sendStep)
			err = send(&nodev1.UploadFilesRequest{Message: &nodev1.UploadFilesRequest_Data{Data: rest[:n]}})
			rest = rest[n:]
		}
		if err == nil {
			done++
		}
		held, begun = held[:0], false
		return err
	}
	for {
		m, err := in.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return done, whole()
		case err != nil:
			if begun && int64(len(held)) == files[done].GetSize() {
				// The file after it is the one that cannot be read.
				if werr := whole(); werr != nil {
					return done, werr
				}
			}
			return done, err
		case m.GetEntry() != nil:
			if err := whole(); err != nil {
				return done, err
			}
			if done >= len(files) {
				return done, fault.New(fault.Internal, "the node sent more files than it was asked for")
			}
			begun = true
		case begun && len(held)+len(m.GetData()) <= extracted.MaxFile:
			held = append(held, m.GetData()...)
		default:
			return done, fault.New(fault.Internal, "the node sent more of a file than there is")
		}
	}
}

// hidden reports whether a path is of files that people do not look at.
func hidden(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		if strings.HasPrefix(part, ".") || part == "node_modules" || part == "__pycache__" {
			return true
		}
	}
	return false
}

// extract reads the documents in the jail, and gives what it writes to an intake. It returns
// what was left out.
func (b *box) extract(ctx context.Context, root string, in *intake) (note string, err error) {
	known, err := json.Marshal(in.digests())
	if err != nil {
		return "", err
	}
	if _, err := b.link.Files().WriteFile(ctx, &nodev1.WriteFileRequest{JailId: b.jailID, Path: knownFile, Content: known}); err != nil {
		return "", fmt.Errorf("write the digests that are known: %w", fault.FromGRPC(err))
	}
	arguments, err := json.Marshal(map[string]string{"path": root, "out": inWorkspace + outFile, "known": inWorkspace + knownFile})
	if err != nil {
		return "", err
	}
	if said, err := b.run(ctx, []string{nodelink.SkillPath, extracted.Folder, string(arguments)}, execTime); err != nil {
		return "", fault.New(fault.Precondition, "the documents cannot be read: %s", strings.TrimPrefix(said, "deckhand-skill: ")).WithCause(err)
	}
	if b.missed != "" {
		in.partial = true
	}
	note, err = in.load(ctx, &file{ctx: ctx, b: b, path: outFile})
	return strings.Join(slices.DeleteFunc([]string{b.missed, note}, func(s string) bool { return s == "" }), "; "), err
}

// load stores what deckhand-skill wrote, and returns what it left out.
func (in *intake) load(ctx context.Context, from io.Reader) (note string, err error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 64<<10), extracted.MaxLine)
	for lines.Scan() {
		var r extracted.Record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return "", fault.New(fault.Precondition, "the reader in the jail wrote something else than documents").WithCause(err)
		}
		if err := r.Check(); err != nil {
			return "", fault.New(fault.Precondition, "the reader in the jail wrote something else than documents: %s", err)
		}
		if err := in.take(ctx, r); err != nil {
			return "", err
		}
	}
	if err := lines.Err(); err != nil {
		return "", fmt.Errorf("read the passages from the jail: %w", err)
	}
	return in.finish(ctx)
}

// file reads a file of the jail's workspace.
type file struct {
	ctx    context.Context //nolint:containedctx // of the one that reads it
	b      *box
	path   string
	offset int64
	held   bytes.Reader
	over   bool
}

// Read implements io.Reader.
func (f *file) Read(p []byte) (int, error) {
	if f.held.Len() == 0 {
		if f.over {
			return 0, io.EOF
		}
		res, err := f.b.link.Files().ReadFile(f.ctx, &nodev1.ReadFileRequest{JailId: f.b.jailID, Path: f.path, Offset: f.offset, Limit: readStep})
		if err != nil {
			return 0, fault.FromGRPC(err)
		}
		f.held.Reset(res.GetContent())
		f.offset += int64(len(res.GetContent()))
		f.over = len(res.GetContent()) == 0 || f.offset >= res.GetSize()
		if len(res.GetContent()) == 0 {
			return 0, io.EOF
		}
	}
	return f.held.Read(p)
}
