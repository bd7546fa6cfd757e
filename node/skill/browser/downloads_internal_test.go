package browser

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The downloads that wait are bounded in number and bytes, whatever a page starts, and none
// that was refused leaves a file.
func TestDownloadsAreBounded(t *testing.T) {
	t.Parallel()
	b := newBrowser("", t.TempDir(), nil)
	require.NoError(t, os.Mkdir(filepath.Join(b.folder, "downloads"), 0o700))
	report := func(method string, params map[string]any) {
		raw, err := json.Marshal(params)
		require.NoError(t, err)
		b.onEvent(event{Method: method, Params: raw})
	}
	begin := func(guid string) {
		report("Browser.downloadWillBegin", map[string]any{"guid": guid, "url": "http://site.test/" + guid, "suggestedFilename": "file"})
	}
	progress := func(guid string, size int64, state string) {
		require.NoError(t, os.WriteFile(filepath.Join(b.folder, "downloads", guid), nil, 0o600))
		report("Browser.downloadProgress", map[string]any{"guid": guid, "receivedBytes": size, "totalBytes": size, "state": state})
	}
	for i := range 500 {
		begin(fmt.Sprint(i))
	}
	require.Len(t, b.order, maxDownloads)
	require.Len(t, b.downloads, maxDownloads)
	progress("0", maxWaiting/2, "completed")
	progress("1", maxWaiting/2, "completed")
	progress("2", 1, "completed")
	progress("3", maxDownload+1, "inProgress")
	progress("499", 1, "completed")
	require.NoFileExists(t, filepath.Join(b.folder, "downloads", "2"))
	require.NoFileExists(t, filepath.Join(b.folder, "downloads", "499"))

	done, running := b.finished()
	require.Len(t, done, 2)
	require.Equal(t, maxDownloads-4, running)
	failed, surplus := b.takeFailed()
	require.Len(t, failed, 2)
	require.Contains(t, failed[0].failed, "larger than 512 MiB")
	require.Contains(t, failed[1].failed, "larger than 256 MiB")
	require.Equal(t, 480, surplus)
	b.handedOver(done)
	require.NoFileExists(t, filepath.Join(b.folder, "downloads", "0"))
	require.Len(t, b.order, maxDownloads-4)
}
