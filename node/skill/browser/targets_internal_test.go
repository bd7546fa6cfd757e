package browser

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/toolname"
)

// The elements of a labelled set are found at the first try: testdata/targets has the pages,
// and in targets.tsv page, target, and the element that is meant. What is not found, or is
// another element, is printed; `go test -run LabelledTargets -v` prints the count.
func TestLabelledTargets(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.FileServer(http.Dir("testdata/targets")))
	defer server.Close()
	raw, err := os.ReadFile("testdata/targets/targets.tsv")
	require.NoError(t, err)
	proxy, err := newProxy("http://127.0.0.1:9")
	require.NoError(t, err)
	defer proxy.close()
	b := newBrowser("", t.TempDir(), proxy)
	defer b.close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	at, found, all, wrong := "", 0, 0, 0
	for line := range strings.Lines(string(raw)) {
		parts := strings.Split(strings.TrimSpace(line), "\t")
		require.Len(t, parts, 3, line)
		if parts[0] != at {
			at = parts[0]
			_, _, err := b.run(ctx, toolname.BrowserNavigate, []byte(`{"url":"`+server.URL+"/"+at+`.html"}`), nil, "", nil)
			require.NoError(t, err)
		}
		all++
		b.mu.Lock()
		p := &page{b, b.active}
		b.mu.Unlock()
		e, err := p.resolve(ctx, parts[1], forAction)
		if err != nil {
			t.Logf("not found: %s: %q: %s", at, parts[1], err)
			continue
		}
		is, err := p.on(ctx, e, `function() { return this.dataset?.t ?? this.closest?.('[data-t]')?.dataset.t ?? '' }`)
		require.NoError(t, err)
		if name := unmarshalString(is); name != parts[2] {
			wrong++
			t.Logf("another one: %s: %q is %s (%s), not %s", at, parts[1], name, e.describe(), parts[2])
			continue
		}
		found++
	}
	t.Logf("%d of %d targets are found at the first try; %d times another element was", found, all, wrong)
	require.GreaterOrEqual(t, found*100, all*90)
}
