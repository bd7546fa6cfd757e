package notification

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	userAgent = "Deckhand"
	// maxHeaders bounds the headers of an answer.
	maxHeaders = 32 << 10
	idleTime   = time.Minute
)

// client returns a client that connects only to permitted networks, follows no redirect,
// and uses no proxy. One for what is sent once uses each connection for one request: a request
// on a reused one that the receiver closes is sent again by net/http.
func client(s *Service, once bool) *http.Client {
	return &http.Client{
		Transport: s.guard.Transport(func(t *http.Transport) {
			t.MaxResponseHeaderBytes, t.TLSHandshakeTimeout, t.IdleConnTimeout, t.MaxIdleConnsPerHost = maxHeaders, s.cfg.Timeout, idleTime, 1
			t.DisableKeepAlives = once
		}),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// post sends a body, and reads a little of the answer.
func (s *Service) post(ctx context.Context, target, contentType string, body []byte, header map[string]string) outcome {
	return s.postBy(ctx, s.http, target, contentType, body, header)
}

func (s *Service) postBy(ctx context.Context, client *http.Client, target, contentType string, body []byte, header map[string]string) outcome {
	connected := false
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected = true },
	}), http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return outcome{err: errors.New("the URL cannot be used")}
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("User-Agent", userAgent)
	for name, value := range header {
		req.Header.Set(name, value)
	}
	if client == s.single {
		req.GetBody = nil // with it, net/http may send the request again by itself
	}
	res, err := client.Do(req)
	if err != nil {
		var of *url.Error
		if errors.As(err, &of) {
			err = of.Err // without the URL
		}
		if ctx.Err() != nil {
			err = fmt.Errorf("no answer within %s", s.cfg.Timeout)
		}
		return outcome{err: err, maybe: connected}
	}
	// Not read to its end: the connection is closed if there is more.
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswer)) // the part that was received
	out := outcome{status: res.StatusCode, said: string(text)}
	switch code := res.StatusCode; {
	case code >= 200 && code < 300:
		return out
	case code >= 300 && code < 400:
		out.err = fmt.Errorf("it answered %d: redirects are not followed; give the URL that it leads to", code)
	case code == http.StatusGone:
		out.gone, out.err = true, answered(code, text)
	default:
		out.after, out.err = retryAfter(res.Header, time.Now()), answered(code, text)
	}
	return out
}

// retryAfter reads Retry-After (RFC 9110, 10.2.3): seconds, or a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second //nolint:gosec // 31 bits
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// webhook sends an event signed as Standard Webhooks (standardwebhooks.com).
func (s *Service) webhook(ctx context.Context, w *deckhandv1.WebhookDestination, secret sealed, id string, e CloudEvent) outcome {
	body, err := e.encode()
	if err != nil {
		return outcome{err: err}
	}
	return signed(ctx, s, s.http, w, secret, id, body, nil)
}

// signed sends a body with its signature.
func signed(ctx context.Context, s *Service, client *http.Client, w *deckhandv1.WebhookDestination, secret sealed, id string, body []byte, more map[string]string) outcome {
	now := time.Now()
	keys := []string{secret.Now}
	if secret.Before != "" && now.Before(secret.Until) {
		keys = append(keys, secret.Before)
	}
	var signatures []string
	for _, key := range keys {
		signer, err := standardwebhooks.NewWebhook(key)
		if err != nil {
			return outcome{err: errors.New("the secret is not one of Standard Webhooks")}
		}
		signature, err := signer.Sign(id, now, body)
		if err != nil {
			return outcome{err: fmt.Errorf("sign: %w", err)}
		}
		signatures = append(signatures, signature)
	}
	header := map[string]string{
		standardwebhooks.HeaderWebhookID: id, standardwebhooks.HeaderWebhookTimestamp: strconv.FormatInt(now.Unix(), 10),
		standardwebhooks.HeaderWebhookSignature: strings.Join(signatures, " "),
	}
	maps.Copy(header, more)
	return s.postBy(ctx, client, w.GetUrl(), "application/cloudevents+json; charset=utf-8", body, header)
}

// slackText escapes what Slack takes for mark-up: mentions and links among it.
var slackText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// slack sends a text.
func (s *Service) slack(ctx context.Context, target string, e CloudEvent) outcome {
	lines := slackText.Replace(e.Data.Summary)
	if e.Data.Task != nil {
		lines += "\n" + slackText.Replace(fmt.Sprintf("task %s: %s", e.Data.Task.ID, oneLine(e.Data.Task.Name, maxSubject)))
	}
	if said := e.message(); said != "" {
		lines += "\n" + slackText.Replace(said)
	}
	if todo := advice(e); todo != "" {
		lines += "\n" + slackText.Replace(todo)
	}
	body, err := json.Marshal(map[string]any{"text": lines, "unfurl_links": false, "unfurl_media": false, "mrkdwn": false})
	if err != nil {
		return outcome{err: fmt.Errorf("encode a text: %w", err)}
	}
	out := s.post(ctx, target, "application/json; charset=utf-8", body, nil)
	if out.err != nil {
		out.err = plainly(out.err, target)
	}
	return out
}

// advice returns the command by which a person acts on an event.
func advice(e CloudEvent) string {
	item, _ := e.Data.Details["item_id"].(string)
	switch {
	case e.Type == typeTest:
		return ""
	case item != "" && (e.Type == approvalRequested || e.Type == outcomeUnknown || e.Type == inputRequired || e.Type == workStopped):
		return "deckhand inbox show " + item
	case e.Type == deliveryFailed:
		return "deckhand trigger delivery " + e.Subject
	case e.Type == triggerTripped:
		return "deckhand trigger show " + e.Subject
	case e.Data.Task != nil:
		return "deckhand task show " + e.Data.Task.ID
	}
	return ""
}
