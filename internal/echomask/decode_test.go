package echomask_test

import (
	"bytes"
	"crypto/rand"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/echomask"
)

func TestEncodedBodiesArePassedOnDecoded(t *testing.T) {
	t.Parallel()
	for encoding, names := range map[string][]string{
		"gzip": {"gzip"}, "X-GZip": {"x-gzip"}, "deflate": {"deflate"}, "DEFLATE": {"raw deflate"}, "br": {"br"}, "zstd": {"zstd"},
		"gzip, br": {"gzip", "br"}, "identity, zstd,gzip , deflate": {"zstd", "gzip", "deflate"},
	} {
		res := response("text/plain", bytes.NewReader(encoded(t, []byte("a s3cr3t-Value-1 b"), names...)))
		res.ContentLength = 99
		for name, value := range map[string]string{"Content-Encoding": encoding, "Content-Length": "99", "ETag": `"a"`, "Content-Digest": "sha-256=:x:", "Vary": "Accept-Encoding"} {
			res.Header.Set(name, value)
		}
		_, err := masker("s3cr3t-Value-1").Response(res)
		require.NoError(t, err, encoding)
		got, err := io.ReadAll(res.Body)
		require.NoError(t, err, encoding)
		require.NoError(t, res.Body.Close())
		require.Equal(t, "a ************** b", string(got), encoding)
		require.Equal(t, http.Header{"Content-Type": {"text/plain"}, "Etag": {`W/"a"`}, "Vary": {"Accept-Encoding"}}, res.Header)
		require.EqualValues(t, -1, res.ContentLength)
		require.True(t, res.Uncompressed)

		empty := response("text/plain", http.NoBody)
		empty.Header.Set("Content-Encoding", encoding)
		_, err = masker("s3cr3t-Value-1").Response(empty)
		require.NoError(t, err)
		got, err = io.ReadAll(empty.Body)
		require.NoError(t, err, encoding)
		require.Empty(t, got)
	}
}

func TestABodyWithoutEncodingKeepsItsLength(t *testing.T) {
	t.Parallel()
	res := response("text/plain", strings.NewReader("a s3cr3t-Value-1 b"))
	res.ContentLength = 18
	res.Header.Set("Content-Length", "18")
	res.Header.Set("ETag", `"a"`)
	_, err := masker("s3cr3t-Value-1").Response(res)
	require.NoError(t, err)
	require.EqualValues(t, 18, res.ContentLength)
	require.Equal(t, "18", res.Header.Get("Content-Length"))
	require.Equal(t, `"a"`, res.Header.Get("ETag"))
}

func TestResponsesWithoutABodyKeepTheirFields(t *testing.T) {
	t.Parallel()
	m := masker("s3cr3t-Value-1")
	for name, change := range map[string]func(*http.Response){
		"HEAD": func(r *http.Response) { r.Request = httptest.NewRequest("HEAD", "/", nil) },
		"204":  func(r *http.Response) { r.StatusCode = 204 },
		"304":  func(r *http.Response) { r.StatusCode = 304 },
		"101":  func(r *http.Response) { r.StatusCode = 101 },
		"none": func(r *http.Response) { r.Body = nil },
	} {
		res := response("text/plain", strings.NewReader(""))
		res.Header.Set("Content-Encoding", "unknown")
		res.Header.Set("X-Echo", "s3cr3t-Value-1")
		change(res)
		body := res.Body
		_, err := m.Response(res)
		require.NoError(t, err, name)
		require.Equal(t, body, res.Body, name)
		require.Equal(t, "unknown", res.Header.Get("Content-Encoding"), name)
		require.Equal(t, "**************", res.Header.Get("X-Echo"), name)
	}
}

func TestWhatCannotBeDecodedIsRefused(t *testing.T) {
	t.Parallel()
	m := masker("s3cr3t-Value-1")
	for _, encoding := range []string{"compress", "dcb", "dcz", "gzip, compress", "aws-chunked", "gzip;q=1", "gzip,gzip,gzip,gzip"} {
		res := response("text/plain", strings.NewReader("x"))
		res.Header.Set("Content-Encoding", encoding)
		_, err := m.Response(res)
		require.ErrorIs(t, err, echomask.ErrEncoding, encoding)
	}
	part := response("text/plain", strings.NewReader("x"))
	part.StatusCode = http.StatusPartialContent
	part.Header.Set("Content-Encoding", "gzip")
	_, err := m.Response(part)
	require.ErrorIs(t, err, echomask.ErrEncoding)
	part.Header.Del("Content-Encoding")
	_, err = m.Response(part)
	require.NoError(t, err, "a part of a body that is not encoded can be searched")

	good := encoded(t, bytes.Repeat([]byte("text "), 1000), "gzip")
	for name, body := range map[string][]byte{
		"not gzip":         []byte("this is not gzip at all"),
		"one byte":         good[:1],
		"ends early":       good[:len(good)-9],
		"a wrong checksum": append(bytes.Clone(good[:len(good)-8]), "12345678"...),
		"goes on":          append(bytes.Clone(good), "rubbish"...),
	} {
		res := response("text/plain", bytes.NewReader(body))
		res.Header.Set("Content-Encoding", "gzip")
		_, err := m.Response(res)
		require.NoError(t, err)
		_, err = io.ReadAll(res.Body)
		assert.Error(t, err, name)
	}
	res := response("text/plain", bytes.NewReader(append(encoded(t, []byte("x"), "deflate"), make([]byte, 100<<10)...)))
	res.Header.Set("Content-Encoding", "deflate")
	_, err = m.Response(res)
	require.NoError(t, err)
	_, err = io.ReadAll(res.Body)
	require.ErrorContains(t, err, "goes on after the end")
}

// A body of a few kilobytes that decodes to a gigabyte costs no memory, and a
// window that would is refused.
func TestABombCostsNoMemory(t *testing.T) {
	const size = 256 << 20
	for _, name := range []string{"gzip", "br", "zstd"} {
		var small bytes.Buffer
		w := encoder(t, name, &small)
		for range size / (1 << 20) {
			_, err := w.Write(make([]byte, 1<<20))
			require.NoError(t, err)
		}
		require.NoError(t, w.Close())
		bomb := encoded(t, small.Bytes(), "gzip")
		w = nil
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		res := response("text/plain", bytes.NewReader(bomb))
		res.Header.Set("Content-Encoding", name+", gzip")
		_, err := masker("s3cr3t-Value-1").Response(res)
		require.NoError(t, err)
		n, err := io.Copy(io.Discard, res.Body)
		require.NoError(t, err, name)
		require.EqualValues(t, size, n)
		runtime.ReadMemStats(&after)
		require.NoError(t, res.Body.Close())
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20), name)
	}

	var wide bytes.Buffer
	w, err := zstd.NewWriter(&wide, zstd.WithWindowSize(64<<20), zstd.WithEncoderLevel(zstd.SpeedFastest))
	require.NoError(t, err)
	random := make([]byte, 9<<20)
	_, err = rand.Read(random)
	require.NoError(t, err)
	for range 8 {
		_, err = w.Write(random)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	res := response("text/plain", &wide)
	res.Header.Set("Content-Encoding", "zstd")
	_, err = masker("s3cr3t-Value-1").Response(res)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, res.Body)
	require.ErrorIs(t, err, zstd.ErrWindowSizeExceeded)
}

func FuzzResponse(f *testing.F) {
	f.Add([]byte("a s3cr3t-Value-1 b"), "text/plain", "", 3)
	f.Add([]byte("\x00 s3cr3t-Value-1"), "", "", 1)
	for _, name := range []string{"gzip", "deflate", "br", "zstd"} {
		f.Add(encoded(f, []byte("a s3cr3t-Value-1 b"), name), "application/json", name, 7)
	}
	m := masker("s3cr3t-Value-1", "Value-1 b and more")
	f.Fuzz(func(t *testing.T, data []byte, contentType, encoding string, size int) {
		res := response("", &parts{data, max(1, size)})
		res.Header["Content-Type"] = []string{contentType}
		res.Header["Content-Encoding"] = []string{encoding}
		if _, err := m.Response(res); err != nil || echomask.Skip(contentType) {
			return
		}
		defer res.Body.Close()
		got, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
		if bytes.Contains(got, []byte("s3cr3t-Value-1")) || bytes.Contains(got, []byte("Value-1 b and more")) {
			t.Fatalf("a secret is in %q", got)
		}
		if encoding == "" && err == nil {
			require.Len(t, got, len(data))
		}
	})
}

// parts returns data in parts of a size.
type parts struct {
	data []byte
	size int
}

func (p *parts) Read(to []byte) (int, error) {
	if len(p.data) == 0 {
		return 0, io.EOF
	}
	n := copy(to, p.data[:min(p.size, len(p.data))])
	p.data = p.data[n:]
	return n, nil
}

func BenchmarkBody(b *testing.B) {
	const size = 64 << 20
	random := make([]byte, size)
	_, err := rand.Read(random)
	require.NoError(b, err)
	text := bytes.Repeat([]byte("{\"id\": 1296269, \"name\": \"Hello-World\", \"owner\": {\"login\": \"octocat\", \"url\": \"https://api.github.com/users/octocat\"}},\n"), size/120)
	secrets := []string{"ghs_16C7e42F292c6912E7710c838347Ae178B4a", "glpat-abcdefghijklmnopqrst", strings.Repeat("eyJhbGciOiJSUzI1NiIs", 50), "correct horse battery staple"}
	m := masker(secrets...)
	for name, data := range map[string][]byte{"random": random, "text": text} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				res := response("text/plain", bytes.NewReader(data))
				_, err := m.Response(res)
				require.NoError(b, err)
				n, err := io.Copy(io.Discard, res.Body)
				require.NoError(b, err)
				require.EqualValues(b, len(data), n)
			}
		})
	}
}
