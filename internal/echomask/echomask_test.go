package echomask_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deckhand-sh/deckhand/internal/echomask"
)

const secret = "ghs_s3cr3t/Value+with=\"<odd> chars&\u00e9"

func masker(values ...string) *echomask.Masker {
	var secrets []echomask.Secret
	for i, v := range values {
		secrets = append(secrets, echomask.Secret{Name: fmt.Sprintf("credential-%d", i), Value: v})
	}
	return echomask.New(secrets)
}

func response(contentType string, body io.Reader) *http.Response {
	res := &http.Response{StatusCode: 200, Status: "200 OK", Header: http.Header{}, Trailer: http.Header{}, Body: io.NopCloser(body), ContentLength: -1}
	if contentType != "" {
		res.Header.Set("Content-Type", contentType)
	}
	return res
}

func TestASecretIsMaskedInTheFormsThatProgramsWrite(t *testing.T) {
	t.Parallel()
	m := masker(secret)
	for name, form := range map[string]string{
		"plain":                secret,
		"in a query":           url.QueryEscape(secret),
		"in a path":            url.PathEscape(secret),
		"in lower-case digits": regexp.MustCompile(`%..`).ReplaceAllStringFunc(url.QueryEscape(secret), strings.ToLower),
		"in hex":               hex.EncodeToString([]byte(secret)),
		"in JSON":              `ghs_s3cr3t/Value+with=\"<odd> chars&` + "\u00e9",
		"in JSON for HTML":     `ghs_s3cr3t/Value+with=\"\u003codd\u003e chars\u0026` + "\u00e9",
		"in PHP's JSON":        `ghs_s3cr3t\/Value+with=\"\u003codd\u003e chars\u0026` + "\u00e9",
		"in HTML":              html.EscapeString(secret),
		"in base64":            strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(secret)), "=")[:len(secret)*8/6],
		"in base64 for URLs":   base64.RawURLEncoding.EncodeToString([]byte(secret))[:len(secret)*8/6],
	} {
		res := response("text/plain", strings.NewReader("<<"+form+">>"))
		_, err := m.Response(res)
		require.NoError(t, err)
		got, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		assert.Equal(t, "<<"+strings.Repeat("*", len(form))+">>", string(got), name)
		assert.Equal(t, []string{"credential-0"}, echomask.Echoed(res.Body), name)
	}
}

// What a client of basic authentication sends is in nobody's configuration.
func TestBasicAuthenticationIsMasked(t *testing.T) {
	t.Parallel()
	m := masker("s3cr3t-Value-1")
	for _, user := range []string{"", "a", "ab", "abc", "x-access-token"} {
		sent := base64.StdEncoding.EncodeToString([]byte(user + ":s3cr3t-Value-1"))
		res := response("application/json; charset=utf-8", strings.NewReader(`{"authorization":"Basic `+sent+`"}`))
		_, err := m.Response(res)
		require.NoError(t, err)
		got, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		begin, end := strings.IndexByte(string(got), '*'), strings.LastIndexByte(string(got), '*')
		require.Greater(t, end-begin, 16, string(got))
		require.Len(t, got, len(`{"authorization":"Basic "}`)+len(sent))
		left := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(string(got), `{"authorization":"Basic `), `"}`), "*", "")
		require.LessOrEqual(t, len(left), len(sent)-17)
	}
}

func TestShortValuesAreNotSearchedFor(t *testing.T) {
	t.Parallel()
	m := masker("short-value", "", "************")
	res := response("text/plain", strings.NewReader("short-value"))
	body := res.Body
	echoed, err := m.Response(res)
	require.NoError(t, err)
	require.Empty(t, echoed)
	require.Equal(t, body, res.Body, "nothing is in its way")
	require.Empty(t, m.Header(http.Header{"A": {"short-value"}}))
	same, err := m.Wrap(http.Header{"Content-Encoding": {"unknown"}}, body)
	require.NoError(t, err)
	require.Equal(t, body, same)
}

func TestHeaderFieldsReasonAndTrailersAreMasked(t *testing.T) {
	t.Parallel()
	m := masker("s3cr3t-Value-1", "other-Value-22")
	res := response("text/plain", nil)
	res.Header["X-Echo"] = []string{"a s3cr3t-Value-1 b", "none"}
	res.Header.Set("Location", "https://example.com/?token=s3cr3t%2DValue%2D1&o=other-Value-22")
	res.Status = "200 s3cr3t-Value-1"
	// As net/http does it: trailers are there when the body has ended.
	res.Body = io.NopCloser(io.MultiReader(strings.NewReader("body"), iotest.ErrReader(io.EOF)))
	echoed, err := m.Response(res)
	require.NoError(t, err)
	slices.Sort(echoed)
	require.Equal(t, []string{"credential-0", "credential-1"}, echoed)
	require.Equal(t, []string{"a ************** b", "none"}, res.Header["X-Echo"])
	require.NotContains(t, res.Header.Get("Location"), "other-Value-22")
	require.Equal(t, "200 **************", res.Status)
	res.Trailer = http.Header{"X-Sum": {"s3cr3t-Value-1"}}
	_, err = io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, "**************", res.Trailer.Get("X-Sum"))
}

func TestInOtherTypesTheBodyEndsBeforeTheSecret(t *testing.T) {
	t.Parallel()
	m := masker("s3cr3t-Value-1")
	for _, contentType := range []string{"application/octet-stream", "image/png", "application/grpc", "not a type;;", ""} {
		before := "\x00\x01\x02\xff before "
		for _, wrap := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.DataErrReader, iotest.HalfReader} {
			res := response(contentType, wrap(strings.NewReader(before+"s3cr3t-Value-1 after")))
			_, err := m.Response(res)
			require.NoError(t, err)
			got, err := io.ReadAll(res.Body)
			require.ErrorIs(t, err, echomask.ErrEcho, contentType)
			require.NotContains(t, err.Error(), "s3cr3t")
			require.ErrorContains(t, err, "credential-0")
			require.GreaterOrEqual(t, len(got), len(before))
			require.True(t, strings.HasPrefix(before+"s3c", string(got)), "a few bytes may pass before it is known what they are: %q", got)
			_, err = res.Body.Read(make([]byte, 10))
			require.ErrorIs(t, err, echomask.ErrEcho)
		}
	}
	for _, contentType := range []string{"text/html; charset=utf-8", "text/event-stream", "application/problem+json", "application/atom+xml", "application/x-ndjson", "application/graphql-response+json", "application/javascript", ""} {
		res := response(contentType, strings.NewReader("a s3cr3t-Value-1 b"))
		_, err := m.Response(res)
		require.NoError(t, err)
		got, err := io.ReadAll(res.Body)
		require.NoError(t, err, contentType)
		require.Equal(t, "a ************** b", string(got))
	}
}

func TestABodyThatBreaksOffShowsNoPartOfASecret(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	res := response("text/plain", io.MultiReader(strings.NewReader("a s3cr3t-Val"), iotest.ErrReader(broken)))
	_, err := masker("s3cr3t-Value-1").Response(res)
	require.NoError(t, err)
	got, err := io.ReadAll(res.Body)
	require.ErrorIs(t, err, broken)
	require.Equal(t, "a ", string(got))

	res = response("text/plain", strings.NewReader("a s3cr3t-Val"))
	_, err = masker("s3cr3t-Value-1").Response(res)
	require.NoError(t, err)
	got, err = io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, "a s3cr3t-Val", string(got), "the end of the body")
}

func TestPacksOfGitAreNotSearched(t *testing.T) {
	t.Parallel()
	m := masker("s3cr3t-Value-1")
	for _, contentType := range []string{"application/x-git-upload-pack-result", "application/x-git-receive-pack-advertisement"} {
		res := response(contentType, strings.NewReader("s3cr3t-Value-1"))
		res.Header.Set("Content-Encoding", "gzip")
		_, err := m.Response(res)
		require.NoError(t, err)
		res.Trailer = http.Header{"A": {"s3cr3t-Value-1"}}
		got, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Equal(t, "s3cr3t-Value-1", string(got))
		require.Equal(t, "gzip", res.Header.Get("Content-Encoding"))
		require.Equal(t, "**************", res.Trailer.Get("A"))
	}
	require.False(t, echomask.Skip("application/x-git-upload-pack-request"))
	require.False(t, echomask.Skip("text/plain"))
	require.False(t, echomask.Skip(""))
}

// An event is passed on when it comes, not when the next one does.
func TestAStreamIsNotDelayed(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{"", "gzip", "br", "zstd", "deflate"} {
		in, out := io.Pipe()
		res := response("text/event-stream", nil)
		res.Body = in
		var w io.WriteCloser = out
		if encoding != "" {
			res.Header.Set("Content-Encoding", encoding)
			w = encoder(t, encoding, out)
		}
		_, err := masker("s3cr3t-Value-1").Response(res)
		require.NoError(t, err)
		for i := range 20 {
			event := fmt.Sprintf("data: %d s3cr3t-Value-1\n\n", i)
			want := fmt.Sprintf("data: %d **************\n\n", i)
			sent := make(chan error, 1)
			go func() {
				_, err := io.WriteString(w, event)
				if f, ok := w.(interface{ Flush() error }); ok && err == nil {
					err = f.Flush()
				}
				sent <- err
			}()
			got := make([]byte, len(want))
			_, err := io.ReadFull(res.Body, got)
			require.NoError(t, err, encoding)
			require.Equal(t, want, string(got), encoding)
			require.NoError(t, <-sent)
		}
		go func() {
			w.Close()
			out.Close()
		}()
		rest, err := io.ReadAll(res.Body)
		require.NoError(t, err, encoding)
		require.Empty(t, rest)
		require.NoError(t, res.Body.Close())
	}
}

func encoder(t testing.TB, name string, to io.Writer) io.WriteCloser {
	t.Helper()
	switch name {
	case "gzip", "x-gzip", "GZIP":
		return gzip.NewWriter(to)
	case "deflate":
		return zlib.NewWriter(to)
	case "raw deflate":
		w, err := flate.NewWriter(to, 6)
		require.NoError(t, err)
		return w
	case "br":
		return brotli.NewWriter(to)
	case "zstd":
		w, err := zstd.NewWriter(to, zstd.WithEncoderConcurrency(1))
		require.NoError(t, err)
		return w
	}
	t.Fatal(name)
	return nil
}

func encoded(t testing.TB, body []byte, names ...string) []byte {
	t.Helper()
	for _, name := range names {
		var out bytes.Buffer
		w := encoder(t, name, &out)
		_, err := w.Write(body)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		body = out.Bytes()
	}
	return body
}

// forms are what a Masker of these values must find, by other means than its own.
func forms(values []string) []string {
	var out []string
	for _, v := range values {
		out = append(out, v, url.QueryEscape(v), url.PathEscape(v), hex.EncodeToString([]byte(v)), html.EscapeString(v))
		for before := range 3 {
			whole := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + v))
			out = append(out, whole[(8*before+5)/6:8*(before+len(v))/6])
		}
	}
	return out
}

// A message in a stream arrives as a whole, although it ends in what a secret may begin with.
func TestAStreamIsNotHeldBackByChance(t *testing.T) {
	t.Parallel()
	for _, contentType := range []string{"application/grpc", "text/event-stream"} {
		from, to := io.Pipe()
		res := response(contentType, from)
		_, err := masker("s3cr3t-Value-1").Response(res)
		require.NoError(t, err)
		for _, text := range []string{"a message s", "s3", "as3c", "s"} {
			go func() { _, _ = io.WriteString(to, text) }()
			got := make([]byte, len(text))
			_, err = io.ReadFull(res.Body, got)
			require.NoError(t, err)
			require.Equal(t, text, string(got))
		}
		require.NoError(t, to.Close())
	}
}

// Whatever is repeated, wherever it is, and however it arrives: every byte of it
// but the first three, which may have passed before more came, is a star, and every other byte
// is what it was.
func TestNoSecretSurvives(t *testing.T) {
	t.Parallel()
	value := rapid.StringOfN(rapid.RuneFrom([]rune("abAB01+/=&<\" %-_~")), 12, 40, -1)
	rapid.Check(t, func(rt *rapid.T) {
		values := rapid.SliceOfN(value, 1, 3).Draw(rt, "values")
		if rapid.Bool().Draw(rt, "overlap") {
			values = append(values, values[0][6:]+values[0][:8], values[0]+values[0])
		}
		needles := forms(values)
		piece := rapid.OneOf(
			rapid.SampledFrom(needles),
			rapid.Map(rapid.SampledFrom(needles), func(s string) string { return s[:len(s)/2] }),
			rapid.Map(rapid.SampledFrom(needles), func(s string) string { return s[len(s)/2:] }),
			rapid.StringN(0, 30, -1),
			rapid.Just(strings.Repeat("x", 33<<10)),
		)
		text := strings.Join(rapid.SliceOfN(piece, 1, 12).Draw(rt, "pieces"), "")
		names := rapid.SliceOfN(rapid.SampledFrom([]string{"gzip", "x-gzip", "deflate", "br", "zstd"}), 0, 3).Draw(rt, "encodings")

		res := response("text/plain", &chunks{rt, encoded(t, []byte(text), names...)})
		if len(names) > 0 {
			res.Header.Set("Content-Encoding", strings.Join(names, ", "))
		}
		_, err := masker(values...).Response(res)
		require.NoError(rt, err)
		got, err := io.ReadAll(&chunked{rt, res.Body})
		require.NoError(rt, err)
		require.Len(rt, got, len(text))
		known, begins := make([]bool, len(text)), make([]bool, len(text))
		for _, n := range needles {
			for at := 0; ; at++ {
				i := strings.Index(text[at:], n)
				if i < 0 {
					break
				}
				at += i
				for j := range n {
					known[at+j] = true
					begins[at+j] = begins[at+j] || j < 3
				}
			}
		}
		for i := range known {
			if known[i] && got[i] != '*' && (!begins[i] || got[i] != text[i]) {
				rt.Fatalf("byte %d of a secret is %q: %q of %q", i, got[i], got, text)
			}
			// Masked beyond these forms is only what is another form of a value.
			if !known[i] && got[i] != text[i] && got[i] != '*' {
				rt.Fatalf("byte %d was changed to %q", i, got[i])
			}
		}
		for _, n := range needles {
			require.NotContains(rt, string(got), n)
		}
		if !strings.ContainsAny(text, "*") && len(echomask.Echoed(res.Body)) == 0 {
			require.Equal(rt, text, string(got))
		}
	})
}

// chunks returns data in parts of any size.
type chunks struct {
	rt   *rapid.T
	data []byte
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.data[:min(len(c.data), rapid.SampledFrom([]int{1, 3, 7, 13, 64, 1000, 40_000}).Draw(c.rt, "chunk"))])
	c.data = c.data[n:]
	return n, nil
}

// chunked reads parts of any size.
type chunked struct {
	rt *rapid.T
	in io.Reader
}

func (c *chunked) Read(p []byte) (int, error) {
	return c.in.Read(p[:min(len(p), rapid.SampledFrom([]int{1, 10, 5000, 100_000}).Draw(c.rt, "read"))])
}
