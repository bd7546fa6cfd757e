package credential_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/egress/credential"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	accessKey    = "AKIAIOSFODNN7CANARY0"
	secretKey    = "wJalrXUtnFEMI7K7MDENGbPxRfiCYCANARYKEY00"
	sessionToken = "FwoGZXIvYXdzEBcanary7hVq2Lk9Zt0pQ"
)

// awsEncode encodes as the documentation of version 4 demands: every byte that is not
// unreserved (RFC 3986).
func awsEncode(text string, slash bool) string {
	var out strings.Builder
	for _, c := range []byte(text) {
		switch {
		case c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', c >= '0' && c <= '9', strings.IndexByte("-._~", c) >= 0, c == '/' && !slash:
			out.WriteByte(c)
		default:
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	return out.String()
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func hexSHA256(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// awsVerify verifies a request as a server of AWS does
// (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html),
// and returns what is wrong with it.
func awsVerify(req *http.Request, region, service, session string) string {
	rest, found := strings.CutPrefix(req.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ")
	if !found {
		return "there is no signature"
	}
	fields := map[string]string{}
	for part := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		fields[name] = value
	}
	date := req.Header.Get("X-Amz-Date")
	at, err := time.Parse("20060102T150405Z", date)
	if err != nil || time.Since(at).Abs() > 15*time.Minute {
		return "the date is wrong"
	}
	scope := date[:8] + "/" + region + "/" + service + "/aws4_request"
	if fields["Credential"] != accessKey+"/"+scope {
		return "the credential is " + fields["Credential"]
	}
	if req.Header.Get("X-Amz-Security-Token") != session {
		return "the session token is missing or another one"
	}
	signed := strings.Split(fields["SignedHeaders"], ";")
	if !slices.IsSorted(signed) || !slices.Contains(signed, "host") {
		return "the host is not signed"
	}
	headers := ""
	for _, name := range signed {
		values := req.Header.Values(name)
		if name == "host" {
			values = []string{req.Host}
		}
		var trimmed []string
		for _, v := range values {
			trimmed = append(trimmed, strings.Join(strings.Fields(v), " "))
		}
		headers += name + ":" + strings.Join(trimmed, ",") + "\n"
	}
	for name := range req.Header {
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-amz-") && !slices.Contains(signed, lower) {
			return name + " is not signed"
		}
	}
	// S3 encodes the path once, others twice.
	path := awsEncode(req.URL.Path, false)
	if service != "s3" {
		path = awsEncode(path, false)
	}
	var query []string
	for name, values := range req.URL.Query() {
		for _, value := range values {
			query = append(query, awsEncode(name, true)+"="+awsEncode(value, true))
		}
	}
	slices.Sort(query)
	body, _ := io.ReadAll(req.Body)
	hash := req.Header.Get("X-Amz-Content-Sha256")
	switch {
	case hash == "" && service != "s3":
		hash = hexSHA256(body)
	case hash == "UNSIGNED-PAYLOAD", hash == "STREAMING-UNSIGNED-PAYLOAD-TRAILER":
	case hash != hexSHA256(body):
		return "the body is not the one that is signed"
	}
	canonical := strings.Join([]string{req.Method, path, strings.Join(query, "&"), headers, fields["SignedHeaders"], hash}, "\n")
	key := mac(mac(mac(mac([]byte("AWS4"+secretKey), date[:8]), region), service), "aws4_request")
	want := hex.EncodeToString(mac(key, "AWS4-HMAC-SHA256\n"+date+"\n"+scope+"\n"+hexSHA256([]byte(canonical))))
	if subtle.ConstantTimeCompare([]byte(want), []byte(fields["Signature"])) != 1 {
		return "the signature is wrong for:\n" + canonical
	}
	return ""
}

// aws is a server that verifies what is signed.
func aws(t *testing.T, region, service, session string) server {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, req *http.Request) {
		if problem := awsVerify(req, region, service, session); problem != "" {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, problem)
		}
	})
}

func awsKeys(session string) *deckhandv1.CredentialValue {
	return &deckhandv1.CredentialValue{AccessKeyId: accessKey, SecretAccessKey: secretKey, SessionToken: session}
}

// What a client sends with keys of its own, or none, arrives with a signature that the server
// computes too.
func TestRequestsToAWSAreSigned(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, c := range map[string]struct{ service, session string }{
		"s3": {"s3", ""}, "session": {"s3", sessionToken}, "other": {"execute-api", sessionToken},
	} {
		s := aws(t, "eu-central-1", c.service, c.session)
		in := s.bound(name, credential.AWS, awsKeys(c.session))
		in.Settings = &deckhandv1.CredentialSettings{Region: "eu-central-1", Service: c.service}
		r.create(in)
		send := func(what, method, path, body string, headers map[string]string) {
			t.Helper()
			req := request(t, method, s.URL+path, body)
			for header, value := range headers {
				req.Header.Set(header, value)
			}
			in, err := r.Insert(t.Context(), org, node, jail, name, req)
			require.NoError(t, err, what)
			require.Contains(t, in.Secrets, secretKey)
			res, err := s.Client().Do(req)
			require.NoError(t, err)
			text, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, http.StatusOK, res.StatusCode, "%s, %s: %s", name, what, text)
		}
		send("a plain request", http.MethodGet, "/bucket/key", "", nil)
		send("a path and a query with odd characters", http.MethodGet, "/bucket/a%20b%2Bc~(d)%3D%C3%BC/x?list-type=2&prefix=a%20b%2F&empty=&b=2&b=1&plus=1%2B1", "", nil)
		send("a body", http.MethodPut, "/bucket/key", "content", map[string]string{"Content-Type": "text/plain", "X-Amz-Meta-Note": "  two   words "})
		send("a client's hash", http.MethodPut, "/bucket/key", "content", map[string]string{"X-Amz-Content-Sha256": hexSHA256([]byte("content"))})
		send("an unsigned body", http.MethodPut, "/bucket/key", "content", map[string]string{"X-Amz-Content-Sha256": "UNSIGNED-PAYLOAD"})
		send("an unsigned stream", http.MethodPut, "/bucket/key", "7\r\ncontent\r\n0\r\nx-amz-checksum-crc32:4ZUcnQ==\r\n\r\n", map[string]string{
			"X-Amz-Content-Sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "Content-Encoding": "aws-chunked", "X-Amz-Trailer": "x-amz-checksum-crc32", "X-Amz-Decoded-Content-Length": "7",
		})
		send("what the client has signed", http.MethodGet, "/bucket/key?x=1", "", map[string]string{
			"Authorization": "AWS4-HMAC-SHA256 Credential=AKIAPLACEHOLDER/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0",
			"X-Amz-Date":    "20200101T000000Z", "X-Amz-Security-Token": "mine", "Date": "Wed, 01 Jan 2020 00:00:00 GMT",
		})
		send("what the client has signed in the URL", http.MethodGet,
			"/bucket/key?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=mine&X-Amz-Date=20200101T000000Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature=0&X-Amz-Security-Token=mine&versionId=3", "", nil)
		send("version 2 in the URL", http.MethodGet, "/bucket/key?AWSAccessKeyId=mine&Signature=0&Expires=9&versionId=3", "", nil)
	}
	r.nowhere(secretKey, sessionToken)
}

// A request that cannot be signed again is refused with the setting that avoids it.
func TestWhatAWSClientsSignThemselvesIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := aws(t, "us-east-1", "sqs", "")
	in := s.bound("queue", credential.AWS, awsKeys(""))
	in.Settings = &deckhandv1.CredentialSettings{Region: "us-east-1", Service: "sqs"}
	r.create(in)
	for _, hash := range []string{"STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD"} {
		req := request(t, http.MethodPut, s.URL+"/", "x")
		req.Header.Set("X-Amz-Content-Sha256", hash)
		_, err := r.Insert(t.Context(), org, node, jail, "queue", req)
		refused(t, err, fault.Denied, "signs each chunk")
		require.Contains(t, fault.As(err).Fix, "payload_signing_enabled = false")
	}
	req := request(t, http.MethodPost, s.URL+"/", "x")
	req.Header.Set("X-Amz-Content-Sha256", "ABC")
	_, err := r.Insert(t.Context(), org, node, jail, "queue", req)
	refused(t, err, fault.Denied, "is not a hash")
	_, err = r.Insert(t.Context(), org, node, jail, "queue", request(t, http.MethodPost, s.URL+"/", strings.Repeat("x", 8<<20+1)))
	refused(t, err, fault.Denied, "longer than 8 MiB")
	req = request(t, http.MethodPost, s.URL+"/", strings.Repeat("x", 8<<20))
	_, err = r.Insert(t.Context(), org, node, jail, "queue", req)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, s.send(t, req))
}

// Region and service come from the name of a host of AWS.
func TestTheScopeOfASignatureComesFromTheHost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for host, scope := range map[string]string{
		"s3.amazonaws.com": "us-east-1/s3", "s3.eu-west-1.amazonaws.com": "eu-west-1/s3", "reports.s3.eu-west-1.amazonaws.com": "eu-west-1/s3",
		"reports.s3.amazonaws.com": "us-east-1/s3", "s3-eu-west-1.amazonaws.com": "eu-west-1/s3", "reports.s3.dualstack.eu-west-1.amazonaws.com": "eu-west-1/s3",
		"a.b.s3.us-gov-west-1.amazonaws.com": "us-gov-west-1/s3", "sts.amazonaws.com": "us-east-1/sts", "sts.eu-north-1.amazonaws.com": "eu-north-1/sts",
		"iam.amazonaws.com": "us-east-1/iam", "dynamodb.ap-southeast-2.amazonaws.com": "ap-southeast-2/dynamodb", "api.ecr.eu-west-1.amazonaws.com": "eu-west-1/ecr",
		"k3.execute-api.us-west-2.amazonaws.com": "us-west-2/execute-api", "bedrock-runtime.us-west-2.amazonaws.com": "us-west-2/bedrock",
		"s3.cn-north-1.amazonaws.com.cn": "cn-north-1/s3", "eu-west-1.queue.amazonaws.com": "eu-west-1/queue",
	} {
		in := bearer("host-" + hexSHA256([]byte(host))[:12])
		keys(in, host)
		r.create(in)
		req := request(t, http.MethodGet, (&url.URL{Scheme: "https", Host: host, Path: "/"}).String(), "")
		_, err := r.Insert(t.Context(), org, node, jail, in.GetName(), req)
		require.NoError(t, err, host)
		assert.Contains(t, req.Header.Get("Authorization"), "/"+scope+"/aws4_request", host)
		assert.Equal(t, host, req.Host)
	}
}
