package verify_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // some senders know no other
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deckhand-sh/deckhand/hub/work/trigger/verify"
)

var now = time.Unix(1_770_000_000, 0)

func sum(h func() hash.Hash, secret, text string) []byte {
	m := hmac.New(h, []byte(secret))
	m.Write([]byte(text))
	return m.Sum(nil)
}

const standardSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// sign returns what a sender of a scheme sends with a body, as its public
// documentation says.
func sign(t require.TestingT, rule verify.Rule, secret string, at time.Time, body string) verify.Request {
	h, q := http.Header{}, url.Values{}
	stamp := strconv.FormatInt(at.Unix(), 10)
	switch rule.Scheme {
	case verify.Token:
		q.Set("token", secret)
	case verify.GitHub:
		h.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(sum(sha256.New, secret, body)))
	case verify.GitLab:
		h.Set("X-Gitlab-Token", secret)
	case verify.Jira:
		h.Set("X-Hub-Signature", "sha256="+hex.EncodeToString(sum(sha256.New, secret, body)))
	case verify.Slack:
		h.Set("X-Slack-Request-Timestamp", stamp)
		h.Set("X-Slack-Signature", "v0="+hex.EncodeToString(sum(sha256.New, secret, "v0:"+stamp+":"+body)))
	case verify.Stripe:
		h.Set("Stripe-Signature", fmt.Sprintf("t=%s,v1=%x,v0=abc", stamp, sum(sha256.New, secret, stamp+"."+body)))
	case verify.Standard:
		key, err := base64.StdEncoding.DecodeString(secret[len("whsec_"):])
		require.NoError(t, err)
		h.Set("Webhook-Id", "msg_1")
		h.Set("Webhook-Timestamp", stamp)
		h.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(sum(sha256.New, string(key), "msg_1."+stamp+"."+body)))
	case verify.HMAC:
		switch rule.Hash {
		case "sha1":
			h.Set(rule.Header, rule.Prefix+base64.StdEncoding.EncodeToString(sum(sha1.New, secret, body)))
		case "sha512":
			h.Set(rule.Header, rule.Prefix+hex.EncodeToString(sum(sha512.New, secret, body)))
		default:
			h.Set("X-Signature", hex.EncodeToString(sum(sha256.New, secret, body)))
		}
	}
	return verify.Request{Query: q, Header: h, Body: []byte(body)}
}

var rules = map[string]verify.Rule{
	"token": {Scheme: verify.Token}, "github": {Scheme: verify.GitHub}, "gitlab": {Scheme: verify.GitLab}, "jira": {Scheme: verify.Jira},
	"slack": {Scheme: verify.Slack}, "stripe": {Scheme: verify.Stripe}, "standard": {Scheme: verify.Standard}, "hmac": {Scheme: verify.HMAC},
	"hmac with sha1 in base64": {Scheme: verify.HMAC, Header: "x-shop-hmac", Encoding: "base64", Hash: "sha1"},
	"hmac with a prefix":       {Scheme: verify.HMAC, Header: "X-Sig", Prefix: "sha512=", Hash: "sha512"},
}

func secretOf(rule verify.Rule) string {
	if rule.Scheme == verify.Standard {
		return standardSecret
	}
	return "It's a Secret to Everybody"
}

// Each scheme takes what its sender sends, and nothing else.
func TestASchemeTakesWhatItsSenderSigns(t *testing.T) {
	t.Parallel()
	for name, rule := range rules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			secret, body := secretOf(rule), `{"title":"Grüße 😀"}`
			good := sign(t, rule, secret, now, body)
			require.NoError(t, rule.Check(good, now, secret))
			require.NoError(t, rule.Check(good, now, "whsec_AAAA", secret), "the one before counts while it is kept")
			require.ErrorIs(t, rule.Check(good, now, "whsec_AAAA"), verify.ErrWrong)
			require.ErrorIs(t, rule.Check(good, now), verify.ErrWrong, "without a secret nothing is verified")
			require.ErrorIs(t, rule.Check(good, now, ""), verify.ErrWrong)
			require.ErrorIs(t, rule.Check(verify.Request{Header: http.Header{}, Body: good.Body}, now, secret), verify.ErrMissing)

			for header := range good.Header {
				twice := good
				twice.Header = good.Header.Clone()
				twice.Header[header] = append(twice.Header[header], twice.Header[header][0])
				require.ErrorIs(t, rule.Check(twice, now, secret), verify.ErrMissing, "%s is there twice", header)
				for _, garbage := range []string{"", "sha256=", "v1,", "t=,v1=", "sha256=zz", "v0=" + string(make([]byte, 64)), "💥"} {
					wrong := good
					wrong.Header = good.Header.Clone()
					wrong.Header.Set(header, garbage)
					require.Error(t, rule.Check(wrong, now, secret), "%s: %q", header, garbage)
				}
			}
			if rule.Scheme == verify.Token || rule.Scheme == verify.GitLab {
				return // these say nothing of the body
			}
			for _, other := range []string{"", body + " ", `{"title":"Grüsse 😀"}`} {
				require.Error(t, rule.Check(verify.Request{Header: good.Header, Body: []byte(other)}, now, secret))
			}
		})
	}
}

// A replay older than the tolerance is refused, and so is one of the future.
func TestAnOldSignatureIsRefused(t *testing.T) {
	t.Parallel()
	for _, scheme := range []verify.Scheme{verify.Slack, verify.Stripe, verify.Standard} {
		rule := verify.Rule{Scheme: scheme}
		secret := secretOf(rule)
		for age, want := range map[time.Duration]error{
			299 * time.Second: nil, -299 * time.Second: nil, 301 * time.Second: verify.ErrOld, -301 * time.Second: verify.ErrOld, 87600 * time.Hour: verify.ErrOld,
		} {
			require.ErrorIs(t, rule.Check(sign(t, rule, secret, now.Add(-age), "{}"), now, secret), want, "%s signed %s ago", scheme, age)
		}
		rule.Tolerance = time.Hour
		require.NoError(t, rule.Check(sign(t, rule, secret, now.Add(-59*time.Minute), "{}"), now, secret))
	}
}

// Of several signatures one valid signature is enough if the scheme allows several: a
// sender in the middle of a rotation signs with both of its secrets.
func TestOneOfSeveralSignaturesIsEnough(t *testing.T) {
	t.Parallel()
	standard := verify.Rule{Scheme: verify.Standard}
	req := sign(t, standard, standardSecret, now, "{}")
	req.Header.Set("Webhook-Signature", "v1,AAAA v1a,BBBB "+req.Header.Get("Webhook-Signature"))
	require.NoError(t, standard.Check(req, now, standardSecret))
	req.Header.Set("Webhook-Signature", "v1,AAAA v1,BBBB")
	require.ErrorIs(t, standard.Check(req, now, standardSecret), verify.ErrWrong)

	stripe := verify.Rule{Scheme: verify.Stripe}
	req = sign(t, stripe, "s", now, "{}")
	req.Header.Set("Stripe-Signature", "v1=00,"+req.Header.Get("Stripe-Signature"))
	require.NoError(t, stripe.Check(req, now, "s"))
	req.Header.Set("Stripe-Signature", "t=1,"+req.Header.Get("Stripe-Signature"))
	require.ErrorIs(t, stripe.Check(req, now, "s"), verify.ErrMissing, "two times")
}

// The example of standardwebhooks.com's own documentation.
func TestTheStandardsOwnExample(t *testing.T) {
	t.Parallel()
	signature, err := verify.Signature(standardSecret, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	require.NoError(t, err)
	require.Equal(t, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", signature)
	_, err = verify.Signature("whsec_***", "a", "1", nil)
	require.Error(t, err)
}

// What proves a sender is never kept.
func TestSecretHeadersAreNotKept(t *testing.T) {
	t.Parallel()
	for name, rule := range rules {
		req := sign(t, rule, secretOf(rule), now, "{}")
		req.Header.Set("Authorization", "Bearer x")
		req.Header.Set("Cookie", "x")
		req.Header.Set("X-Odd", "a\x00b\xff")
		kept := rule.Keep(req.Header)
		for header, value := range kept {
			require.NotContains(t, value, secretOf(rule), name)
			require.NotContains(t, []string{"Authorization", "Cookie", "Webhook-Signature", "X-Slack-Signature", "X-Signature", "X-Sig", "X-Shop-Hmac"}, header)
		}
		require.Equal(t, "a�b�", kept["X-Odd"])
	}
}

// Whatever one byte of a signed message is changed to, it is refused.
func TestAChangedMessageIsRefused(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		scheme := rapid.SampledFrom([]verify.Scheme{verify.GitHub, verify.Jira, verify.Slack, verify.Stripe, verify.Standard, verify.HMAC}).Draw(t, "scheme")
		rule := verify.Rule{Scheme: scheme}
		body := rapid.SliceOfN(rapid.Byte(), 1, 200).Draw(t, "body")
		req := sign(t, rule, secretOf(rule), now, string(body))
		require.NoError(t, rule.Check(req, now, secretOf(rule)))
		changed := bytes.Clone(body)
		changed[rapid.IntRange(0, len(body)-1).Draw(t, "at")] ^= rapid.ByteRange(1, 255).Draw(t, "by")
		req.Body = changed
		require.ErrorIs(t, rule.Check(req, now, secretOf(rule)), verify.ErrWrong)
	})
}

// FuzzCheck: no header makes a verifier panic, or accept an unsigned body.
func FuzzCheck(f *testing.F) {
	f.Add("github", "sha256=00", "1", "{}")
	f.Add("stripe", "t=1,v1=00,v1=zz", "x", "")
	f.Add("standard", "v1,AAAA v1,", "1770000000", "\xff")
	f.Fuzz(func(t *testing.T, scheme, signature, stamp, body string) {
		rule := verify.Rule{Scheme: verify.Scheme(scheme), Header: "X-Signature"}
		h := http.Header{}
		for _, name := range []string{"X-Hub-Signature-256", "X-Hub-Signature", "X-Gitlab-Token", "X-Slack-Signature", "Stripe-Signature",
			"Webhook-Signature", "X-Signature", "X-Deckhand-Token"} {
			h.Set(name, signature)
		}
		for _, name := range []string{"X-Slack-Request-Timestamp", "Webhook-Timestamp", "Webhook-Id"} {
			h.Set(name, stamp)
		}
		const secret = "whsec_c2VjcmV0IHRoYXQgbm9ib2R5IGd1ZXNzZXM="
		if err := rule.Check(verify.Request{Header: h, Body: []byte(body)}, now, secret); err == nil && signature != secret {
			t.Fatalf("%s took %q", scheme, signature)
		}
		rule.Keep(h)
	})
}
