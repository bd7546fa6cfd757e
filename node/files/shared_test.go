package files_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// share uploads a tree for reading only.
func share(t *testing.T, api nodev1.FileServiceClient, into string, all ...sent) (*nodev1.UploadFilesResponse, error) {
	t.Helper()
	stream, err := api.UploadFiles(t.Context())
	require.NoError(t, err)
	// What is refused is said by the answer.
	_ = stream.Send(&nodev1.UploadFilesRequest{Message: &nodev1.UploadFilesRequest_Begin_{
		Begin: &nodev1.UploadFilesRequest_Begin{JailId: jailID, Path: into, Shared: true},
	}})
	for _, one := range all {
		_ = stream.Send(&nodev1.UploadFilesRequest{Message: &nodev1.UploadFilesRequest_Entry{Entry: one.entry}})
		if one.data != "" {
			_ = stream.Send(&nodev1.UploadFilesRequest{Message: &nodev1.UploadFilesRequest_Data{Data: []byte(one.data)}})
		}
	}
	return stream.CloseAndRecv()
}

// What is shared with a workspace is read there and not changed: the kernel
// refuses the jail's own user, and the service refuses whoever asks it.
func TestWhatIsSharedIsForReadingOnly(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("files are given to another user by root: run the tests as root")
	}
	s, dir := service(t)
	api := dial(t, s)
	require.NoError(t, os.Chown(dir, 65534, 65534))
	// The jail's user finds the way there, as it does in its jail.
	for up := filepath.Dir(dir); up != "/"; up = filepath.Dir(up) {
		if info, err := os.Stat(up); err == nil && info.Mode().Perm()&0o001 == 0 && strings.HasPrefix(up, os.TempDir()+"/") {
			require.NoError(t, os.Chmod(up, info.Mode().Perm()|0o011))
		}
	}
	as := func(script string) (string, error) {
		cmd := exec.Command("/bin/sh", "-c", script)
		cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	large := strings.Repeat("0123456789", 5000)
	program := fileEntry("lib/run", "#!/bin/sh\necho ran\n")
	program.Mode = 0o700
	secret := fileEntry("deep/er/file", "secret")
	secret.Mode = 0o600
	all := []sent{
		{program, "#!/bin/sh\necho ran\n"}, {secret, "secret"}, {fileEntry("large", large), large},
		{entry: &nodev1.UploadEntry{Path: "empty", Type: "dir", Mode: 0o777}}, {entry: &nodev1.UploadEntry{Path: "link", Type: "symlink", Target: "deep/er/file"}},
	}
	for range 2 { // again as well as at first
		got, err := share(t, api, "shared/handoff_1", all...)
		require.NoError(t, err)
		require.EqualValues(t, 3, got.GetFiles())
	}
	out, err := as("cd shared/handoff_1; lib/run; cat deep/er/file link; wc -c < large; ls; stat -c '%a %u' lib/run deep deep/er/file empty")
	require.NoError(t, err, out)
	require.Equal(t, "ran\nsecretsecret50000\ndeep\nempty\nlarge\nlib\nlink\n555 0\n555 0\n444 0\n555 0\n", out)

	before := listed(t, dir)
	for _, script := range []string{
		"echo x > large", "echo x >> large", "chmod u+w large", "rm large", "mv large other", "rm -rf deep", "echo x > new", "mkdir empty/new",
		"ln -sfn large link", "echo x > .t; mv .t large", "cp lib/run ../../mine; mv ../../mine lib/run || { rm ../../mine; exit 1; }", "mv deep ../../", "chmod 777 .", "touch large",
	} {
		out, err := as("cd shared/handoff_1; " + script + " </dev/null")
		require.Error(t, err, script)
		require.Regexp(t, "(Permission denied|Operation not permitted|Directory not empty)", out, script)
	}
	name := func(path string) string { return "shared/handoff_1/" + path }
	add := func(operation string) error {
		_, err := s.AppendFile(t.Context(), &nodev1.AppendFileRequest{JailId: jailID, Path: name("large"), Content: []byte("x"), OperationId: operation})
		return err
	}
	require.NoError(t, os.Symlink("shared/handoff_1", filepath.Join(dir, "way")))
	for what, change := range map[string]func() error{
		"write":       func() error { _, err := write(t, s, name("large"), "x"); return err },
		"write new":   func() error { _, err := write(t, s, name("a/b/new"), "x"); return err },
		"write by":    func() error { _, err := write(t, s, "way/deep/er/file", "x"); return err },
		"append":      func() error { return add("") },
		"append once": func() error { return add("step_1") },
		"edit": func() error {
			_, err := s.EditFile(t.Context(), &nodev1.EditFileRequest{JailId: jailID, Path: name("deep/er/file"), Edit: &nodev1.Edit{Old: []byte("sec")}})
			return err
		},
		"move out": func() error {
			_, err := s.MoveFile(t.Context(), &nodev1.MoveFileRequest{JailId: jailID, From: name("large"), To: "large"})
			return err
		},
		"move in": func() error {
			_, err := s.MoveFile(t.Context(), &nodev1.MoveFileRequest{JailId: jailID, From: "way", To: name("large"), Overwrite: true})
			return err
		},
		"delete": func() error {
			_, err := s.DeleteFile(t.Context(), &nodev1.DeleteFileRequest{JailId: jailID, Path: name("deep"), Recursive: true})
			return err
		},
		"upload": func() error {
			_, err := upload(t, api, "shared", sent{fileEntry("handoff_1/large", "x"), "x"})
			return fault.FromGRPC(err)
		},
	} {
		err := change()
		require.True(t, fault.Is(err, fault.Denied), "%s: %v", what, err)
		require.ErrorContains(t, err, "shared with this workspace for reading only", what)
		require.Contains(t, fault.As(err).Fix, "copy it", what)
	}
	require.NoError(t, os.Remove(filepath.Join(dir, "way")))
	require.Equal(t, before, listed(t, dir))

	// A copy of it is the workspace's own, and so is the folder as a whole.
	out, err = as("cp -r shared/handoff_1 mine; chmod -R u+w mine; echo x > mine/large")
	require.NoError(t, err, out)
	_, err = s.DeleteFile(t.Context(), &nodev1.DeleteFileRequest{JailId: jailID, Path: "shared/handoff_1", Recursive: true})
	require.NoError(t, err)
	_, err = share(t, api, "", sent{fileEntry("x", "x"), "x"})
	require.ErrorContains(t, err, "the workspace itself cannot be shared")
}

// listed is every name with its mode, owner and content.
func listed(t *testing.T, dir string) (out []string) {
	t.Helper()
	require.NoError(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		require.NoError(t, err)
		line := fmt.Sprint(path, info.Mode(), info.Sys().(*syscall.Stat_t).Uid)
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			line += digest(string(content))
		}
		out = append(out, line)
		return nil
	}))
	return out
}

// Whoever was there before, the folder and what is in it is root's then.
func TestAFolderOfTheJailsIsTakenOverWhenItIsShared(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("files are given to another user by root: run the tests as root")
	}
	s, dir := service(t)
	_, err := write(t, s, "shared/h/a/mine", "mine")
	require.NoError(t, err)
	_, err = share(t, dial(t, s), "shared/h", sent{fileEntry("a/theirs", "theirs"), "theirs"})
	require.NoError(t, err)
	for _, name := range []string{"shared/h", "shared/h/a", "shared/h/a/theirs"} {
		info, err := os.Lstat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Zero(t, info.Sys().(*syscall.Stat_t).Uid, name)
		require.Zero(t, info.Mode().Perm()&0o222, name)
	}
	info, err := os.Lstat(filepath.Join(dir, "shared"))
	require.NoError(t, err)
	require.EqualValues(t, 65534, info.Sys().(*syscall.Stat_t).Uid, "what leads there stays the jail's")
	// A link in its place leads nowhere else.
	require.NoError(t, os.Symlink("../outside", filepath.Join(dir, "away")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o755))
	require.NoError(t, os.Symlink("folder", filepath.Join(dir, "within")))
	for _, into := range []string{"away", "within"} {
		_, err := share(t, dial(t, s), into, sent{fileEntry("x", "x"), "x"})
		require.Error(t, err, into)
	}
	info, err = os.Lstat(filepath.Join(dir, "folder"))
	require.NoError(t, err)
	require.EqualValues(t, 0o755, info.Mode().Perm())
}
